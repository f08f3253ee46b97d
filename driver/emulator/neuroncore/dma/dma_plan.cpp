// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/dma/dma_plan.h"

#include <bit>

#include "driver/emulator/neuroncore/dma/dma_packets.h"
#include "hw/udma.h"

namespace neuron::core {

Fault DmaPlan::begin(const isa::DmaControl& control, const RingLengths& lengths) {
  const unsigned operation = control.operation;
  const unsigned from = isa::dtype_bytes(control.from_type);
  const unsigned to = isa::dtype_bytes(control.to_type);
  const bool moves = operation == NEURON_DMA_COPY || operation == NEURON_DMA_TRANSPOSE;
  if (from == 0 || to == 0 || (moves && from != to)) {
    return make_fault(NEURON_FAULT_OPERAND_DTYPE, 0, control.to_type, NEURON_DMA_CTL);
  }
  if (operation > NEURON_DMA_TRANSPOSE ||
      (control.accumulate && (moves || operation == NEURON_DMA_CAST))) {
    return make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, operation, NEURON_DMA_CTL);
  }
  if (control.mask == 0) {
    return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, 0, NEURON_DMA_CTL + 4);
  }
  mask_ = control.mask;
  priority_ = control.priority;
  for (PlanLane& lane : lanes_) {
    lane.m2s.clear();
    lane.s2m.clear();
    lane.packets.clear();
    lane.packets_done = lane.m2s_done = lane.s2m_done = 0;
  }
  for (unsigned engine = 0; engine < lengths.size(); ++engine) {
    if ((mask_ >> engine & 1) != 0 && lengths[engine] == 0) {
      return make_fault(NEURON_FAULT_DMA_RING, 0, engine << 8 | control.queue, NEURON_DMA_CTL);
    }
  }
  return {};
}

void DmaPlan::signal(uint64_t one, uint64_t semaphore) {
  for (unsigned engine = 0; engine < lanes_.size(); ++engine) {
    if ((mask_ >> engine & 1) == 0) continue;
    PlanLane& lane = lanes_[engine];
    // With this bit, the data before it is visible first.
    if (!lane.m2s.empty()) lane.m2s.back().low |= uint64_t{NEURON_META_WRITE_BARRIER} << 32;
    append_copy(lane, one, semaphore, 4, priority_);
  }
}

bool DmaPlan::done() const {
  for (const PlanLane& lane : lanes_) {
    if (!lane.done()) return false;
  }
  return true;
}

}  // namespace neuron::core
