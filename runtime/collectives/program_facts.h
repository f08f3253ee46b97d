// SPDX-License-Identifier: Apache-2.0
//
// What profiles say of the program of a CC core, out of libccom's description of it. Callers:
// CollectivePrograms. Thread-safe: pure. Cannot fail: what libccom does not say is left out.
#ifndef RUNTIME_COLLECTIVES_PROGRAM_FACTS_H
#define RUNTIME_COLLECTIVES_PROGRAM_FACTS_H

#include <ccom/ccom_device.h>

#include "runtime/model/stream_facts.h"

namespace neuron::runtime {

// `facts` has stream, rank and prologue; the rest is filled in. `groups`: the number of the group
// of each collective, among those that its model names.
StreamFacts with_program(StreamFacts facts, const std::vector<uint32_t>& groups,
                         const ccom_device_stream_t& stream, const ccom_device_program_t& program);

}  // namespace neuron::runtime

#endif
