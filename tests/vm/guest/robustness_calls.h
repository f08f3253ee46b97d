// SPDX-License-Identifier: Apache-2.0
// Every call of the device that takes an argument: its number and the size of its struct, which the
// number itself tells only for newer calls. Callers: the robustness list.
#ifndef TESTS_VM_GUEST_ROBUSTNESS_CALLS_H
#define TESTS_VM_GUEST_ROBUSTNESS_CALLS_H

#include <cstddef>
#include <span>

namespace neuron::guest {

struct Call {
  const char* name;
  unsigned long number;
  size_t size;
  // Ends without a long wait and without consequence for the rest, whatever its argument holds.
  bool harmless;
};

std::span<const Call> all_calls();

}  // namespace neuron::guest

#endif
