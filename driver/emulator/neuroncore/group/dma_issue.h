// SPDX-License-Identifier: Apache-2.0
// Instructions about DMA: dma_trigger, which rings doorbells, and dma_generate, dma_gather and
// dma_scatter, which make descriptors themselves.
//
// A generating instruction takes several steps of model time: it plans (dma/dma_plan.h), waits as
// long as planning costs, writes as much as the rings have room for, rings the doorbells, waits for
// room and goes on. The driver initialises a queue; its base, length and position are read from the
// DMA engine. Descriptors are written before their doorbell, S2M is rung before M2S, and ring ids
// change at each wrap. Callers: the holder of the core. Fails: by the fault that a call returns;
// nothing is written before all checks of a plan have passed.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_DMA_ISSUE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_DMA_ISSUE_H

#include <array>
#include <cstdint>

#include "driver/emulator/neuroncore/dma/dma_plan.h"
#include "driver/emulator/neuroncore/group/core_state.h"
#include "driver/emulator/neuroncore/group/issue.h"

namespace neuron::core {

class DmaIssue {
 public:
  explicit DmaIssue(CoreState& state);

  Fault execute(Issue& issue) {
    return issue.i.opcode == NEURON_OP_DMA_TRIGGER ? trigger(issue) : generate(issue);
  }
  // Called when a queue of the core's DMA engines has taken descriptors or was rung: an instruction
  // that waits for room checks again.
  void rings_have_room(ModelTime now) {
    if (room_waiter_ != 0) wake_room_waiter(now);
  }
  void reset();

 private:
  using QueueRings = std::array<chip::RingState, 2>;  // M2S, S2M

  Fault trigger(Issue& issue);
  Fault generate(Issue& issue);
  Fault plan(Issue& issue);
  Fault write_lane(Issue& issue, unsigned engine);
  Fault write_ring(const Issue& issue, const chip::RingState& ring,
                   const RawDescriptor* descriptors, unsigned count);
  void wake_room_waiter(ModelTime now);
  QueueRings rings_of(unsigned engine, unsigned queue) const;
  unsigned chip_engine(unsigned engine) const { return state_.core * kDmaEngines + engine; }

  CoreState& state_;
  std::array<uint64_t, kDmaEngines> doorbells_;  // device addresses of the engines' registers
  DmaPlan plan_;
  uint8_t room_waiter_ = 0;  // bit of the sequencer that waits for room in a ring
};

}  // namespace neuron::core

#endif
