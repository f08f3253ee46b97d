// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the traces of NKI kernels: nothing may crash or hang, and what is lowered must be
// a file that the loader reads.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/neff/container.h"
#include "tools/compiler/nki/lowering.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMost = 1 << 16;
  if (size > kMost) return 0;
  const auto lowered =
      neuron::nki::lower({reinterpret_cast<const char*>(data), size}, {.physical_cores = 1});
  if (!lowered) return 0;
  const auto container =
      neuron::neff::Container::open({lowered->neff.data(), lowered->neff.size()});
  if (!container) {
    std::fprintf(stderr, "a lowered trace is no file: %s\n", container.error().sentence.c_str());
    std::abort();
  }
  return 0;
}
