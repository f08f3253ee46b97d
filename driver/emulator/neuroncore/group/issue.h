// SPDX-License-Identifier: Apache-2.0
// The instruction that a sequencer is issuing, on its way through the classes that execute it.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_ISSUE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_ISSUE_H

#include <cstdint>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"

namespace neuron::core {

struct Issue {
  Sequencer& s;
  CachedInstruction& entry;
  const isa::Instruction& i;  // with registers substituted
  ModelTime now;
  Cost cost;
  uint32_t pc;
  uint32_t next_pc;
  ModelTime begin = 0;     // the unit begins: not before `now`
  ModelTime gap = 0;       // the unit waits for the result of the instruction before
  ModelTime end = 0;       // inputs consumed
  ModelTime complete = 0;  // result visible
  bool stays = false;      // the program counter does not move
  bool again = false;      // not finished: it is issued again later
};

// The fault of an instruction whose access to `address` the bus has refused.
inline Fault bus_fault(const chip::Bus& bus, uint64_t address) {
  uint32_t id = 0;
  const neuron_fault code = bus.refusal(address, id);
  return make_fault(code, address, code == NEURON_FAULT_LINK ? id : 4);
}

}  // namespace neuron::core

#endif
