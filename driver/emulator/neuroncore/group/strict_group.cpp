// SPDX-License-Identifier: Apache-2.0
// What the execution group tells strict mode: accesses, and what orders them.
#include <algorithm>

#include "driver/emulator/chip/udma_packet.h"
#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {
namespace {

struct Place {
  unsigned space = NEURON_SPACE_ABSENT;
  unsigned partition = 0;
  uint64_t offset = 0;
};

// Of an offset in the core's window; it lies in one partition, or the access had been refused.
Place place_of(uint64_t offset) {
  if (offset < NEURON_CORE_SBUF_SIZE) {
    return {NEURON_SPACE_SBUF, static_cast<unsigned>(offset / NEURON_SBUF_PARTITION_STRIDE),
            offset % NEURON_SBUF_PARTITION_STRIDE};
  }
  const uint64_t at = offset - NEURON_CORE_PSUM;
  if (offset < NEURON_CORE_PSUM || at >= NEURON_CORE_PSUM_SIZE) return {};
  return {NEURON_SPACE_PSUM, static_cast<unsigned>(at / NEURON_PSUM_PARTITION_STRIDE),
          at % NEURON_PSUM_PARTITION_STRIDE};
}

bool fits(const CoreMemory& memory, const Place& place, uint64_t bytes) {
  const uint64_t size =
      place.space == NEURON_SPACE_SBUF ? memory.sbuf_bytes() : CoreMemory::kPsumBytes;
  return place.space != NEURON_SPACE_ABSENT && bytes <= size && place.offset <= size - bytes;
}

}  // namespace

// An access through the window. Transfers of the core's own queues are told packet by packet.
void ExecutionGroup::note_access(uint64_t offset, size_t bytes, bool write,
                                 const chip::Access& access) {
  if (inside()) {
    if (access.origin != chip::Origin::kEngine || access.engine >= kEngines) return;
    const Place place = place_of(offset);
    strict_->access_word(access.engine, sequencers_[access.engine].pc, place.space, place.partition,
                         place.offset, bytes, write);
    return;
  }
  const MailKind kind = write ? MailKind::kMemoryWrite : MailKind::kMemoryRead;
  ring_from_outside({offset, static_cast<uint32_t>(bytes), kind, access});
}

void ExecutionGroup::note_mail(const Mail& mail) {
  const bool write = mail.kind == MailKind::kMemoryWrite;
  if (!strict_ || (!write && !in_execution_)) return;
  const Place place = place_of(mail.offset);
  if (!fits(memory_, place, mail.value)) return;
  strict_->access_word(NEURON_ENGINE_HOST, 0, place.space, place.partition, place.offset,
                       mail.value, write);
}

void ExecutionGroup::dma_packet(unsigned engine, unsigned queue, uint32_t ahead,
                                const chip::Packet& packet) {
  if (!strict_ || !inside()) return;
  const unsigned index = engine - core_ * kDmaEngines;
  if (index >= kDmaEngines) return;
  serving_ = static_cast<int>(index << 4 | queue);
  transferred_ = ahead + packet.m2s_count;
  bool begun = false;
  const auto tell = [&](const chip::Descriptor& descriptor, uint64_t left, bool write) {
    const uint64_t offset = descriptor.address - window_;
    const uint64_t bytes = std::min<uint64_t>(descriptor.bytes(), left);
    if (offset >= NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE) return bytes;
    const Place place = place_of(offset);
    if (!fits(memory_, place, bytes)) return bytes;
    if (!begun) strict_->begin_packet(static_cast<unsigned>(serving_), ahead);
    begun = true;
    strict_->transfer(place.space, place.partition, place.offset, bytes, write);
    return bytes;
  };
  for (uint32_t n = 0; n < packet.m2s_count; ++n) {
    if ((packet.m2s[n].control & NEURON_DESC_META) != 0) continue;
    tell(packet.m2s[n], packet.m2s[n].bytes(), false);
  }
  const bool reads = packet.computes && packet.compute.accumulate;
  for (const bool write : {false, true}) {
    if (!write && !reads) continue;
    uint64_t left = packet.result_bytes();
    for (uint32_t n = 0; n < packet.s2m_count; ++n) left -= tell(packet.s2m[n], left, write);
  }
  // A packet that touches nothing of the core, a semaphore's write, still comes behind its
  // doorbell.
  if (!begun) strict_->pass_packet(static_cast<unsigned>(serving_), ahead);
}

void ExecutionGroup::note_semaphore(const chip::SemaphoreChange& change,
                                    const chip::Access& access) {
  StrictClocks& clocks = strict_->clocks();
  const unsigned cell = change.index + (change.event ? NEURON_SEMAPHORES : 0);
  if (inside() && access.core == core_ && access.origin == chip::Origin::kEngine &&
      access.engine < kEngines) {
    const bool visible = sequencers_[access.engine].last_complete <= access.time;
    clocks.release(access.engine, strict_->tick(access.engine, visible), cell);
  } else if (inside() && access.core == core_ && access.origin == chip::Origin::kDma &&
             serving_ >= 0) {
    const unsigned actor = clocks.queue(static_cast<unsigned>(serving_)).actor;
    clocks.release(actor, clocks.now(actor), cell);
  } else {
    clocks.release_all(cell);
  }
}

void ExecutionGroup::note_doorbell(unsigned engine, unsigned queue, const chip::Access& access,
                                   bool idle) {
  StrictClocks& clocks = strict_->clocks();
  const unsigned number = engine << 4 | queue;
  const uint32_t pending = pending_descriptors(engine, queue);
  if (inside() && access.core == core_ && access.engine < kEngines) {
    const Sequencer& s = sequencers_[access.engine];
    const uint64_t tick = strict_->tick(s.engine, s.last_complete <= access.time);
    clocks.ring(number, idle, pending, s.engine, tick, {s.pc, static_cast<uint8_t>(s.engine)});
  } else if (inside() && access.origin == chip::Origin::kDma && serving_ >= 0) {
    const StrictClocks::Queue& by = clocks.queue(static_cast<unsigned>(serving_));
    clocks.ring(number, idle, pending, by.actor, clocks.now(by.actor), by.ringer);
  } else {
    clocks.acquire_all(StrictClocks::kOutside);
    clocks.ring(number, idle, pending, StrictClocks::kOutside, clocks.now(StrictClocks::kOutside),
                {0, NEURON_ENGINE_HOST});
  }
}

// By an engine of this core; of others nothing is known that could order an access.
void ExecutionGroup::dma_armed(unsigned engine, unsigned queue, const chip::Access& access) {
  const unsigned index = engine - core_ * kDmaEngines;
  if (!strict_ || !inside() || index >= kDmaEngines || queue >= NEURON_DMA_QUEUES) return;
  if (access.core != core_ || access.engine >= kEngines) return;
  const uint64_t tick =
      strict_->tick(access.engine, sequencers_[access.engine].last_complete <= access.time);
  strict_->clocks().arm(index << 4 | queue, access.engine, tick);
}

// The waits of an instruction hold: what was released into them comes before it.
void ExecutionGroup::acquire_waits(const Sequencer& s, const isa::Instruction& i) {
  StrictClocks& clocks = strict_->clocks();
  if (!clocks.active()) return;
  for (const isa::Wait& wait : i.wait) {
    if (wait.condition == NEURON_WAIT_NONE) continue;
    clocks.acquire(s.engine, wait.index + (wait.event ? NEURON_SEMAPHORES : 0));
  }
  if (i.drain || i.opcode == NEURON_OP_DRAIN) {
    std::array<uint32_t, kDmaEngines> active;
    for (unsigned d = 0; d < kDmaEngines; ++d)
      active[d] = actors_[d].active | actors_[kDmaEngines + d].active;
    clocks.drained(s.engine, active);
  }
}

Fault ExecutionGroup::check_accesses(Sequencer& s, const isa::Instruction& i) {
  for (const isa::Operand* operand : {&i.dst, &i.src0, &i.src1}) {
    // Refused by who executes it.
    if (operand->present() && operand->elements() > kMaxElements) return {};
  }
  return strict_->check(i, s.engine, s.pc);
}

// A trap of `store` or `load`.
Fault ExecutionGroup::strict_fault() {
  if (!strict_->trapped()) return {};
  return strict_->take_trap().fault;
}

uint32_t ExecutionGroup::pending_descriptors(unsigned engine, unsigned queue) const {
  const chip::RingState ring = dma_[engine]->ring_state(queue, false);
  return ring.length - ring.room;
}

// Behind a run of packets: counts them, and raises what they trapped on at who rang for them.
void ExecutionGroup::end_transfers(unsigned engine, unsigned queue, ModelTime now) {
  serving_ = -1;
  strict_->clocks().queue(engine << 4 | queue).consumed += transferred_;
  transferred_ = 0;
  if (!strict_->trapped()) return;
  const StrictMode::Trap trap = strict_->take_trap();
  const unsigned owner =
      trap.ringer.engine < kEngines ? trap.ringer.engine : actor_of(engine, queue).owner[queue];
  Sequencer& s = sequencers_[owner];
  core_faults_ |= 1u << 8;
  if (s.state == NEURON_STATE_FAULT || s.state == NEURON_STATE_IDLE) return;
  raise(s, trap.fault, trap.ringer.pc, 0, NEURON_OP_DMA_TRIGGER, now);
  schedule(s);
}

}  // namespace neuron::core
