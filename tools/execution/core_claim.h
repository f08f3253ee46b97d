// SPDX-License-Identifier: Apache-2.0
//
// Narrows what nrt_init will claim to the cores that a program uses, so that others stay free.
//
// Concept: nrt_init claims what NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES names, and all cores
// of the host without them. These functions set the variables of this process to a part of that.
// Callers: programs, before nrt_init and before they start threads. Cannot fail: where the cores of
// the host cannot be counted, or are too few, the environment stays, and nrt_init or the program
// itself says what is wrong.
#ifndef TOOLS_EXECUTION_CORE_CLAIM_H
#define TOOLS_EXECUTION_CORE_CLAIM_H

#include <cstdint>

namespace neuron::execution {

// Any `count` cores of those: the first ones of NEURON_RT_VISIBLE_CORES, free ones otherwise.
void claim_only(uint32_t count);

// The cores `first` to `last`, counted from 0 among those. Returns the number that core 0 of the
// session has in this count: `first`, or 0 if the environment stays as it is.
uint32_t claim_range(uint32_t first, uint32_t last);

}  // namespace neuron::execution

#endif
