// SPDX-License-Identifier: Apache-2.0
//
// Describes faults of strict mode, which concern two instructions: what was found at which byte,
// which instruction is the second one, and what was expected (the words of hw/fault.h).
// Callers: fault reports, holding the core's turn. Thread-safe: no state. Fails: never; a detail
// that the words lack is left out.
#ifndef RUNTIME_EXEC_FAULT_PAIR_H
#define RUNTIME_EXEC_FAULT_PAIR_H

#include <string>

#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

// Whether a fault of this code carries the words of two instructions.
bool concerns_two_instructions(uint32_t code);

struct FaultWords {
  uint32_t place = 0, other = 0, detail = 0;
  bool complete = false;  // `detail` is known: the error entry was found
};

// "found a write of partition 3 byte 0x40 of SBUF and an earlier read of it by PE pc 7: ..., ..."
std::string describe_pair(const LoadedModel& model, uint32_t engine, uint32_t pc, uint32_t code,
                          const FaultWords& words);

}  // namespace neuron::runtime

#endif
