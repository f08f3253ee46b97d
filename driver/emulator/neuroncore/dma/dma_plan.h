// SPDX-License-Identifier: Apache-2.0
// Descriptors that the core makes itself: what dma_generate, dma_gather and dma_scatter will write
// into the rings of a queue.
//
// Concepts: a plan has one lane per DMA engine of the instruction's mask; row r of the transfer
// goes to lane r mod the number of engines. A lane is a list of packets; their descriptors lack
// only the ring ids. The plan is made at once, with all bounds checked, and then written in
// portions as the rings have room (dma_issue.cpp). Callers: the execution group, in its thread.
// Fails: DMA_OOB, DMA_RING, OPERAND_SHAPE; nothing has been written then. Allocates; keeps its
// memory.
#ifndef DRIVER_EMULATOR_NEURONCORE_DMA_DMA_PLAN_H
#define DRIVER_EMULATOR_NEURONCORE_DMA_DMA_PLAN_H

#include <array>
#include <cstdint>
#include <vector>

#include "driver/emulator/neuroncore/sequencer/core_memory.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/isa/instruction.h"

namespace neuron::core {

// Two 64-bit words: control and meta, address.
struct RawDescriptor {
  uint64_t low = 0;
  uint64_t high = 0;
};

struct PlannedPacket {
  uint8_t m2s = 0;  // descriptors
  uint8_t s2m = 0;
};

struct PlanLane {
  std::vector<RawDescriptor> m2s, s2m;
  std::vector<PlannedPacket> packets;
  // Written so far.
  size_t packets_done = 0, m2s_done = 0, s2m_done = 0;
  bool done() const { return packets_done == packets.size(); }
};

// How many descriptors the empty rings of each lane hold, the smaller of M2S and S2M.
using RingLengths = std::array<uint32_t, chip::kEnginesPerCore>;

class DmaPlan {
 public:
  // The most descriptors that one instruction can make on one side of a lane.
  static constexpr size_t kMaxDescriptors = 65536;

  // Both take an instruction that passed isa::check_operands after its bindings were substituted;
  // `unbound` is the instruction before that. `window`: device address of the core's window.
  Fault generate(const isa::Instruction& instruction, const isa::Instruction& unbound,
                 const chip::ChipLayout& layout, bool stochastic, const RingLengths& lengths);
  Fault indirect(const isa::Instruction& instruction, CoreMemory& memory, uint64_t window,
                 bool stochastic, const RingLengths& lengths);
  // Appends to each lane the packet that adds 1 to a semaphore; `one` is a device address that
  // reads 1.
  void signal(uint64_t one, uint64_t semaphore);

  uint16_t mask() const { return mask_; }
  PlanLane& lane(unsigned engine) { return lanes_[engine]; }
  bool done() const;

 private:
  Fault begin(const isa::DmaControl& control, const RingLengths& lengths);

  uint16_t mask_ = 0;
  uint8_t priority_ = 0;
  std::array<PlanLane, chip::kEnginesPerCore> lanes_;
};

}  // namespace neuron::core

#endif
