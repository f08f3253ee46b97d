// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what neuron-compile reads: the bytes of an HLO module. Nothing may crash or hang,
// or take more memory than the limits allow.
#include <cstdint>

#include "tests/fuzz/compiled_graph.h"
#include "tools/compiler/hlo/importer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace neuron;  // NOLINT: this file is the target
  if (size > fuzz::kMostBytes) return 0;
  const auto imported = hlo::import_module({data, size}, "fuzz", fuzz::kLimits);
  if (imported) fuzz::compile(imported->graph, imported->refusals);
  return 0;
}
