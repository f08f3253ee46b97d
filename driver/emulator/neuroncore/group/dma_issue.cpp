// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/dma_issue.h"

#include <algorithm>
#include <cstring>

#include "driver/base/abandonment.h"

namespace neuron::core {

DmaIssue::DmaIssue(CoreState& state) : state_(state) {
  const chip::ChipLayout& layout = state_.bus.layout();
  for (unsigned i = 0; i < kDmaEngines; ++i) {
    doorbells_[i] = layout.device_of(layout.udma(chip_engine(i)));
  }
}

void DmaIssue::reset() {
  room_waiter_ = 0;
  state_.generation.active = false;
}

Fault DmaIssue::trigger(Issue& issue) {
  const isa::DmaTriggerBody& body = issue.i.trigger;
  const chip::Access access = state_.access_of(issue.s, issue.now);
  // Destinations first, so that data finds its descriptors.
  for (const bool s2m : {true, false}) {
    const auto& counts = s2m ? body.s2m_count : body.m2s_count;
    const uint64_t base = s2m ? body.s2m : body.m2s;
    for (unsigned engine = 0; engine < counts.size(); ++engine) {
      if ((body.mask >> engine & 1) == 0 || counts[engine] == 0) continue;
      const uint64_t address = base + uint64_t{engine} * body.stride;
      if (!state_.bus.write32(address, counts[engine], access)) {
        return bus_fault(state_.bus, address);
      }
      if (!issue.s.active()) return {};  // the queue has refused and stopped the engine
    }
  }
  return {};
}

// Registers of both rings, or length 0 if the queue cannot take descriptors.
DmaIssue::QueueRings DmaIssue::rings_of(unsigned engine, unsigned queue) const {
  QueueRings rings;
  for (const bool s2m : {false, true}) rings[s2m] = state_.dma[engine]->ring_state(queue, s2m);
  return rings;
}

Fault DmaIssue::generate(Issue& issue) {
  Sequencer& s = issue.s;
  if (!state_.resumes(s)) return plan(issue);
  const uint16_t mask = plan_.mask();
  for (unsigned engine = 0; engine < kDmaEngines; ++engine) {
    if ((mask >> engine & 1) == 0) continue;
    if (Fault fault = write_lane(issue, engine)) {
      state_.generation.active = false;
      return fault;
    }
    if (!s.active()) return {};  // the queue has refused and stopped the engine
  }
  if (!plan_.done()) {
    s.state = NEURON_STATE_WAITING;
    s.wait_since = issue.now;
    s.issue_at = kNever;
    room_waiter_ = static_cast<uint8_t>(1u << s.place.actor);
    issue.again = true;
    return {};
  }
  state_.generation.active = false;
  // The plan was computed before: what is left is the last doorbell.
  issue.cost.interval = state_.timing.control_interval;
  return {};
}

// All checks, and the descriptors; nothing is written.
Fault DmaIssue::plan(Issue& issue) {
  Sequencer& s = issue.s;
  const isa::Instruction& i = issue.i;
  RingLengths lengths{};
  for (unsigned engine = 0; engine < kDmaEngines; ++engine) {
    if ((i.dma.mask >> engine & 1) == 0) continue;
    const QueueRings rings = rings_of(engine, i.dma.queue);
    lengths[engine] = std::min(rings[0].length, rings[1].length);
  }
  const bool stochastic = state_.rounds_stochastically(s, i);
  state_.generation.active = false;
  Fault fault =
      i.opcode == NEURON_OP_DMA_GENERATE
          ? plan_.generate(i, issue.entry.decoded, state_.bus.layout(), stochastic, lengths)
          : plan_.indirect(i, state_.memory, state_.window, stochastic, lengths);
  if (fault.code == NEURON_FAULT_DMA_RING) fault.info += chip_engine(0) << 8;
  if (fault) return fault;
  if (i.dma.signal) {
    plan_.signal(
        state_.window + NEURON_CORE_CONTROL + NEURON_CORE_ONE,
        state_.window + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * i.dma.semaphore);
  }
  state_.generation = {.active = true, .actor = s.place.actor, .pc = s.pc, .starts = s.starts};
  s.occupy(issue.now, issue.now + issue.cost.interval);
  s.issue_at = issue.now + issue.cost.interval;
  issue.again = true;
  return {};
}

Fault DmaIssue::write_lane(Issue& issue, unsigned engine) {
  PlanLane& lane = plan_.lane(engine);
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
    const chip::Access access = state_.access_of(issue.s, issue.now);
    for (const bool half : {true, false}) {
      const uint64_t doorbell = doorbells_[engine] +
                                NEURON_UDMA_QUEUE(half ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue) +
                                NEURON_UDMAQ_TAIL_INC;
      if (!state_.bus.write32(doorbell, half ? s2m : m2s, access)) {
        return make_fault(NEURON_FAULT_BUS, doorbell, 4);
      }
      if (!issue.s.active()) return {};
    }
  }
  return {};
}

// Descriptors at the tail of a ring, each with the id that the ring expects there.
Fault DmaIssue::write_ring(const Issue& issue, const chip::RingState& ring,
                           const RawDescriptor* descriptors, unsigned count) {
  uint32_t slot = ring.tail;
  uint32_t id = ring.tail_id;
  uint32_t steps = 0;
  for (unsigned n = 0; n < count; ++n) {
    base::Abandonment::look_now_and_then(steps);
    RawDescriptor d = descriptors[n];
    d.low |= uint64_t{id} << NEURON_DESC_RING_ID_SHIFT;
    std::array<std::byte, NEURON_DESC_BYTES> bytes;
    std::memcpy(bytes.data(), &d, sizeof d);
    const uint64_t address = ring.base + uint64_t{slot} * NEURON_DESC_BYTES;
    if (!state_.bus.write(address, bytes, state_.access_of(issue.s, issue.now))) {
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
void DmaIssue::wake_room_waiter(ModelTime now) {
  for (Sequencer& s : state_.sequencers) {
    if ((room_waiter_ >> s.place.actor & 1) == 0) continue;
    if (s.state != NEURON_STATE_WAITING || s.issue_at != kNever || !state_.resumes(s)) continue;
    s.issue_at = std::max(now, s.wait_since);
    state_.scheduler.schedule(s);
    state_.scheduler.set_runnable();
  }
  room_waiter_ = 0;
}

}  // namespace neuron::core
