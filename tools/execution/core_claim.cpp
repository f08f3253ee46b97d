// SPDX-License-Identifier: Apache-2.0
#include "tools/execution/core_claim.h"

#include <nrt/nrt.h>

#include <cstdlib>
#include <string>

#include "runtime/base/environment.h"

namespace neuron::execution {
namespace {

constexpr const char* kVisible = "NEURON_RT_VISIBLE_CORES";
constexpr const char* kCount = "NEURON_RT_NUM_CORES";
constexpr uint32_t kMostCores = 512;  // of a host: 64 devices of 8 cores

void set_visible(uint32_t first, uint32_t last) {
  ::setenv(kVisible, (std::to_string(first) + "-" + std::to_string(last)).c_str(), 1);
}

// How many cores a session would have; 0: it would have none, and nrt_init knows why.
uint32_t visible_count() {
  uint32_t count = 0;
  return nrt_get_visible_vnc_count(&count) == NRT_SUCCESS ? count : 0;
}

// The first core that NEURON_RT_VISIBLE_CORES names; they are in a row.
uint32_t first_visible() {
  const auto cores = runtime::environment_ranges(kVisible, kMostCores);
  return cores && !cores->empty() ? cores->front() : 0;
}

}  // namespace

void claim_only(uint32_t count) {
  if (count == 0 || count >= visible_count()) return;
  if (runtime::environment_is_set(kVisible)) {
    const uint32_t first = first_visible();
    set_visible(first, first + count - 1);
  } else {
    ::setenv(kCount, std::to_string(count).c_str(), 1);
  }
}

uint32_t claim_range(uint32_t first, uint32_t last) {
  const uint32_t visible = visible_count();
  if (last < first || last >= visible || last - first + 1 == visible) return 0;
  if (!runtime::environment_is_set(kVisible) && runtime::environment_is_set(kCount)) {
    // Which cores these are was left to the runtime; it still is.
    ::setenv(kCount, std::to_string(last - first + 1).c_str(), 1);
  } else {
    const uint32_t zero = first_visible();
    set_visible(zero + first, zero + last);
  }
  return first;
}

}  // namespace neuron::execution
