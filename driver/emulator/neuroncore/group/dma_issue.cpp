// SPDX-License-Identifier: Apache-2.0
// Instructions that make descriptors, in model time: plan, compute for as long as it costs, write
// what the rings have room for, ring the doorbells, wait for room, go on.
//
// A queue is whatever its driver has initialised: base, length and position are read from the DMA
// engine. Descriptors are written before their doorbell, S2M is rung before M2S, ring ids follow
// the wraps. Room comes when the queue executes; an instruction that waits for it is told by
// step_dma.
#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {

bool ExecutionGroup::resumes(const Sequencer& s) const {
  return generation_.active && generation_.engine == s.place.actor && generation_.pc == s.pc &&
         generation_.starts == s.starts;
}

// Registers of both rings, or length 0 if the queue cannot take descriptors.
ExecutionGroup::QueueRings ExecutionGroup::rings_of(unsigned engine, unsigned queue) const {
  QueueRings rings;
  for (const bool s2m : {false, true}) rings[s2m] = dma_[engine]->ring_state(queue, s2m);
  return rings;
}

Fault ExecutionGroup::generate_dma(Issue& issue) {
  Sequencer& s = issue.s;
  if (!resumes(s)) return plan_dma(issue);
  const uint16_t mask = generation_.plan.mask();
  for (unsigned engine = 0; engine < kDmaEngines; ++engine) {
    if ((mask >> engine & 1) == 0) continue;
    if (Fault fault = write_lane(issue, engine)) {
      generation_.active = false;
      return fault;
    }
    if (!s.active()) return {};  // the queue has refused and stopped the engine
  }
  if (!generation_.plan.done()) {
    s.state = NEURON_STATE_WAITING;
    s.wait_since = issue.now;
    s.issue_at = kNever;
    ring_waiter_ = static_cast<uint8_t>(1u << s.place.actor);
    issue.again = true;
    return {};
  }
  generation_.active = false;
  // The plan was computed before: what is left is the last doorbell.
  issue.cost.interval = isa::control_interval(limits_.generation);
  return {};
}

// All checks, and the descriptors; nothing is written.
Fault ExecutionGroup::plan_dma(Issue& issue) {
  Sequencer& s = issue.s;
  const isa::Instruction& i = issue.i;
  RingLengths lengths{};
  for (unsigned engine = 0; engine < kDmaEngines; ++engine) {
    if ((i.dma.mask >> engine & 1) == 0) continue;
    const QueueRings rings = rings_of(engine, i.dma.queue);
    lengths[engine] = std::min(rings[0].length, rings[1].length);
  }
  const unsigned rounding = i.rounding != 0 ? i.rounding : s.mode >> 2 & 3;
  const bool stochastic = rounding == 2 || (rounding == 0 && (core_mode_ & 1) != 0);
  DmaPlan& plan = generation_.plan;
  generation_.active = false;
  Fault fault = i.opcode == NEURON_OP_DMA_GENERATE
                    ? plan.generate(i, issue.entry.decoded, bus_.layout(), stochastic, lengths)
                    : plan.indirect(i, memory_, window_, stochastic, lengths);
  if (fault.code == NEURON_FAULT_DMA_RING) fault.info += chip_engine(0) << 8;
  if (fault) return fault;
  if (i.dma.signal) {
    plan.signal(window_ + NEURON_CORE_CONTROL + NEURON_CORE_ONE,
                window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * i.dma.semaphore);
  }
  generation_.active = true;
  generation_.engine = s.place.actor;
  generation_.pc = s.pc;
  generation_.starts = s.starts;
  s.busy += issue.cost.interval;
  s.issue_at = issue.now + issue.cost.interval;
  issue.again = true;
  return {};
}

Fault ExecutionGroup::write_lane(Issue& issue, unsigned engine) {
  PlanLane& lane = generation_.plan.lane(engine);
  const unsigned queue = issue.i.dma.queue;
  while (!lane.done()) {  // bounded: a packet each time, or out
    const QueueRings rings = rings_of(engine, queue);
    if (rings[0].length == 0 || rings[1].length == 0) {
      return make_fault(NEURON_FAULT_DMA_RING, 0, chip_engine(engine) << 8 | queue, NEURON_DMA_CTL);
    }
    // Whole packets, so that what is visible can always be executed.
    unsigned m2s = 0;
    unsigned s2m = 0;
    size_t packets = 0;
    while (lane.packets_done + packets < lane.packets.size()) {
      const PlannedPacket& next = lane.packets[lane.packets_done + packets];
      if (next.m2s > rings[0].length || next.s2m > rings[1].length) {
        return make_fault(NEURON_FAULT_DMA_RING, rings[0].base, chip_engine(engine) << 8 | queue,
                          NEURON_DMA_CTL);
      }
      if (m2s + next.m2s > rings[0].room || s2m + next.s2m > rings[1].room) break;
      m2s += next.m2s;
      s2m += next.s2m;
      ++packets;
    }
    if (packets == 0) return {};
    if (Fault fault = write_ring(issue, rings[1], &lane.s2m[lane.s2m_done], s2m)) return fault;
    if (Fault fault = write_ring(issue, rings[0], &lane.m2s[lane.m2s_done], m2s)) return fault;
    lane.packets_done += packets;
    lane.m2s_done += m2s;
    lane.s2m_done += s2m;
    const chip::Access access = access_of(issue.s, issue.now);
    for (const bool half : {true, false}) {
      const uint64_t doorbell = doorbells_[engine] +
                                NEURON_UDMA_QUEUE(half ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue) +
                                NEURON_UDMAQ_TAIL_INC;
      if (!bus_.write32(doorbell, half ? s2m : m2s, access)) {
        return make_fault(NEURON_FAULT_BUS, doorbell, 4);
      }
      if (!issue.s.active()) return {};
    }
  }
  return {};
}

// Descriptors at the tail of a ring, each with the id that the ring expects there.
Fault ExecutionGroup::write_ring(const Issue& issue, const chip::RingState& ring,
                                 const RawDescriptor* descriptors, unsigned count) {
  uint32_t slot = ring.tail;
  uint32_t id = ring.tail_id;
  for (unsigned n = 0; n < count; ++n) {
    RawDescriptor d = descriptors[n];
    d.low |= uint64_t{id} << NEURON_DESC_RING_ID_SHIFT;
    std::array<std::byte, NEURON_DESC_BYTES> bytes;
    std::memcpy(bytes.data(), &d, sizeof d);
    const uint64_t address = ring.base + uint64_t{slot} * NEURON_DESC_BYTES;
    if (!bus_.write(address, bytes, access_of(issue.s, issue.now))) {
      return make_fault(NEURON_FAULT_BUS, address, NEURON_DESC_BYTES);
    }
    if (++slot == ring.length) {
      slot = 0;
      id = (id + 1) & 3;
    }
  }
  return {};
}

// A queue of a DMA engine has consumed descriptors.
void ExecutionGroup::ring_has_room(ModelTime now) {
  for (Sequencer& s : sequencers_) {
    if ((ring_waiter_ >> s.place.actor & 1) == 0) continue;
    if (s.state != NEURON_STATE_WAITING || s.issue_at != kNever || !resumes(s)) continue;
    s.issue_at = std::max(now, s.wait_since);
    schedule(s);
    set_runnable();
  }
  ring_waiter_ = 0;
}

}  // namespace neuron::core
