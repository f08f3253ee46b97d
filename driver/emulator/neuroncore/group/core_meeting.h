// SPDX-License-Identifier: Apache-2.0
// Where the two cores of a logical core meet: barrier and sendrecv (hw/isa.h, body of a pair).
//
// An engine that reaches such an instruction tells the other core once, by its semaphore, at the
// model time at which the engine's earlier results are visible. Then the instruction waits as any
// other does. A tile of sendrecv goes ahead of the semaphore through the chip's PairExchange.
// Strict mode hears of src0 when the engine arrives, and of dst when the other core was there.
// Callers: InstructionIssue, by the holder of the core. Fails: a fault of the instruction; arrive()
// before the other core has been told, receive() for a tile that does not fit dst.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_MEETING_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_MEETING_H

#include "driver/emulator/neuroncore/group/core_state.h"
#include "driver/emulator/neuroncore/group/issue.h"
#include "driver/emulator/neuroncore/group/strict_observer.h"

namespace neuron::core {

class CoreMeeting {
 public:
  CoreMeeting(CoreState& state, StrictObserver& strict) : state_(state), strict_(strict) {}

  // The sequencer is at `i`, whose registers have been substituted and whose operands are right.
  Fault arrive(Sequencer& s, const isa::Instruction& i, ModelTime now);
  // The other core was there: the tile that it has sent becomes dst.
  Fault receive(Issue& issue);

 private:
  Fault send(Sequencer& s, const isa::Instruction& i);

  CoreState& state_;
  StrictObserver& strict_;
};

}  // namespace neuron::core

#endif
