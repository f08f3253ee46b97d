// SPDX-License-Identifier: Apache-2.0
// The process of a custom operator, as the operator's own library sees it: which core it is, what
// it counts, how it ends.
//
// Callers: the tensor library beside this, in the operator's only thread. Cannot fail: fail() tells
// the core why the call has failed (enum neuron_operator_failure) and ends the process.
#ifndef DRIVER_OPERATOR_PROCESS_H
#define DRIVER_OPERATOR_PROCESS_H

#include <cstddef>
#include <cstdint>

#include "hw/custom_operator.h"

namespace neuron::operators {

// Accesses so far. They become model time.
extern neuron_operator_counts counts;

struct Place {
  uint32_t core = 0;
  uint32_t cores = 1;
};
extern Place place;

[[noreturn]] void fail(neuron_operator_failure failure, uint64_t value = 0, const char* text = "");

inline void count_transfer(size_t bytes) {
  ++counts.transfers;
  counts.transfer_bytes += bytes;
}

}  // namespace neuron::operators

#endif
