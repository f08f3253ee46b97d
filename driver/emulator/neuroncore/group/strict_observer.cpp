// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/strict_observer.h"

#include <algorithm>
#include <bit>

#include "driver/emulator/chip/udma_packet.h"

namespace neuron::core {
namespace {

constexpr unsigned kCollectiveQueue = 15;

struct Place {
  unsigned space = NEURON_SPACE_ABSENT;
  unsigned partition = 0;
  uint64_t offset = 0;
};

// The place of an offset in the core's window. It lies in one partition; otherwise the bus would
// have refused the access.
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

unsigned cell_of(const chip::SemaphoreChange& change) {
  return change.index + (change.event ? NEURON_SEMAPHORES : 0);
}

// How many of a cell's units a wait needs to hold.
uint64_t needed_units(const Sequencer& s, const isa::Wait& wait) {
  const uint64_t wanted =
      wait.is_register ? s.registers[wait.value % NEURON_REGISTERS] : uint64_t{wait.value};
  switch (wait.condition) {
    case NEURON_WAIT_GE:
      return wanted;
    case NEURON_WAIT_GT:
      return wanted + 1;
    default:
      return UINT64_MAX;  // a value that later units may have changed
  }
}

bool fits(const CoreMemory& memory, const Place& place, uint64_t bytes) {
  const uint64_t size =
      place.space == NEURON_SPACE_SBUF ? memory.sbuf_bytes() : CoreMemory::kPsumBytes;
  return place.space != NEURON_SPACE_ABSENT && bytes <= size && place.offset <= size - bytes;
}

}  // namespace

void StrictObserver::access(uint64_t offset, size_t bytes, bool write, const chip::Access& access) {
  if (!is_on()) return;
  if (gate_.inside()) {
    if (access.origin != chip::Origin::kEngine || access.engine >= kEngines) return;
    const Place place = place_of(offset);
    state_.strict->access_word(access.engine, state_.sequencers[access.engine].pc, place.space,
                               place.partition, place.offset, bytes, write);
    return;
  }
  const MailKind kind = write ? MailKind::kMemoryWrite : MailKind::kMemoryRead;
  gate_.deliver({offset, static_cast<uint32_t>(bytes), kind, access});
}

void StrictObserver::mail(const Mail& mail, bool executing) {
  const bool write = mail.kind == MailKind::kMemoryWrite;
  if (!write && !executing) return;
  const Place place = place_of(mail.offset);
  if (!fits(state_.memory, place, mail.value)) return;
  state_.strict->access_word(NEURON_ENGINE_HOST, 0, place.space, place.partition, place.offset,
                             mail.value, write);
}

void StrictObserver::packet(unsigned index, unsigned queue, uint32_t ahead,
                            const chip::Packet& packet) {
  if (!is_on() || !gate_.inside()) return;
  serving_ = static_cast<int>(index << 4 | queue);
  transferred_ = ahead + packet.m2s_count;
  bool begun = false;
  const auto begin = [&] {
    if (!begun) state_.strict->begin_packet(static_cast<unsigned>(serving_), ahead);
    begun = true;
  };
  const bool shares = state_.strict->shares();
  const auto tell = [&](const chip::Descriptor& descriptor, uint64_t bytes, bool write) {
    const uint64_t offset = descriptor.address - state_.window;
    if (offset >= NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE) {
      if (!shares) return;
      // Queue 15 is that of CC cores, whose program's order is not known.
      if (queue != kCollectiveQueue && state_.bus.layout().is_hbm(descriptor.address)) {
        begin();
        state_.strict->transfer_shared(descriptor.address, bytes, write);
      } else if (const auto cell = write ? cell_of_other(descriptor.address) : std::nullopt) {
        begin();
        const unsigned actor = clocks().queue(static_cast<unsigned>(serving_)).actor;
        state_.strict->tell(*cell, NEURON_ENGINE_DMA, actor, clocks().tell(actor));
      }
      return;
    }
    const Place place = place_of(offset);
    if (!fits(state_.memory, place, bytes)) return;
    begin();
    state_.strict->transfer(place.space, place.partition, place.offset, bytes, write);
  };
  const auto tell_results = [&](bool write) {
    uint64_t left = packet.result_bytes();
    for (uint32_t n = 0; n < packet.s2m_count; ++n) {
      const uint64_t bytes = std::min<uint64_t>(packet.s2m[n].bytes(), left);
      tell(packet.s2m[n], bytes, write);
      left -= bytes;
    }
  };
  for (uint32_t n = 0; n < packet.m2s_count; ++n) {
    if ((packet.m2s[n].control & NEURON_DESC_META) != 0) continue;
    tell(packet.m2s[n], packet.m2s[n].bytes(), false);
  }
  if (packet.computes && packet.compute.accumulate) tell_results(false);
  tell_results(true);
  // A packet that touches no memory of the core (a semaphore write) still comes behind its
  // doorbell.
  if (!begun) state_.strict->pass_packet(static_cast<unsigned>(serving_), ahead);
}

void StrictObserver::semaphore(const chip::SemaphoreChange& change, const chip::Access& access) {
  const unsigned cell = cell_of(change);
  consumed(change);
  const bool own = gate_.inside() && access.core == state_.core;
  if (own && access.origin == chip::Origin::kEngine && access.engine < kEngines) {
    clocks().release(access.engine, tick_of(state_.sequencers[access.engine], access.time), cell);
  } else if (own && access.origin == chip::Origin::kDma && serving_ >= 0) {
    const unsigned actor = clocks().queue(static_cast<unsigned>(serving_)).actor;
    clocks().release(actor, clocks().tell(actor), cell);
  } else if (is_of_other_core(access)) {
    clocks().release_all(cell, false);
    const uint32_t units = change.after > change.before ? change.after - change.before : 0;
    state_.strict->hear(cell, access.engine, units);
  } else {
    clocks().release_all(cell, true);
  }
}

bool StrictObserver::is_of_other_core(const chip::Access& access) const {
  return state_.exchange != nullptr && access.origin != chip::Origin::kHost &&
         access.core == chip::PairExchange::other_core(state_.core);
}

void StrictObserver::consumed(const chip::SemaphoreChange& change) {
  if (change.after >= change.before) return;
  clocks().consume(cell_of(change), change.before - change.after);
}

std::optional<unsigned> StrictObserver::cell_of_other(uint64_t address) const {
  if (state_.exchange == nullptr) return std::nullopt;
  const unsigned other = chip::PairExchange::other_core(state_.core);
  const uint64_t at = address - state_.bus.layout().core_address(other) - NEURON_CORE_SEMAPHORES;
  neuron_update_operation operation;
  unsigned index;
  uint32_t operand;
  if (at >= NEURON_SEM_BLOCK_SIZE ||
      !chip::SemaphoreBlock::decode_write(at, 1, operation, index, operand)) {
    return std::nullopt;
  }
  return index + (operation >= NEURON_UPDATE_EVENT_SET ? NEURON_SEMAPHORES : 0);
}

Fault StrictObserver::stores(const Sequencer& s, uint64_t address, ModelTime now) {
  if (!observes(s) || !state_.strict->shares()) return {};
  if (state_.bus.layout().is_hbm(address)) {
    return state_.strict->store_shared(s.engine, s.pc, address);
  }
  if (const auto cell = cell_of_other(address)) {
    state_.strict->tell(*cell, s.engine, s.engine, tick_of(s, now));
  }
  return {};
}

void StrictObserver::loads(const Sequencer& s, uint64_t address) {
  if (!observes(s) || !state_.strict->shares() || !state_.bus.layout().is_hbm(address)) return;
  state_.strict->load_shared(s.engine, address);
}

void StrictObserver::doorbell(unsigned engine, unsigned queue, const chip::Access& access,
                              bool idle) {
  const unsigned number = engine << 4 | queue;
  const uint32_t pending = pending_descriptors(engine, queue);
  if (is_own_engine(access)) {
    const Sequencer& s = state_.sequencers[access.engine];
    clocks().ring(number, idle, pending, s.engine, tick_of(s, access.time),
                  {s.pc, static_cast<uint8_t>(s.engine)});
  } else if (gate_.inside() && access.origin == chip::Origin::kDma && serving_ >= 0) {
    const StrictClocks::Queue& by = clocks().queue(static_cast<unsigned>(serving_));
    clocks().ring(number, idle, pending, by.actor, clocks().tell(by.actor), by.ringer);
  } else {
    clocks().acquire_all(StrictClocks::kOutside);
    clocks().ring(number, idle, pending, StrictClocks::kOutside,
                  clocks().tell(StrictClocks::kOutside), {0, NEURON_ENGINE_HOST});
  }
}

// Counts only doorbells of this core's engines; nothing is known of others that could order an
// access.
void StrictObserver::armed(unsigned engine, unsigned queue, const chip::Access& access) {
  if (!is_own_engine(access)) return;
  clocks().arm(engine << 4 | queue, access.engine,
               tick_of(state_.sequencers[access.engine], access.time));
}

std::optional<StrictMode::Trap> StrictObserver::end_transfers(unsigned engine, unsigned queue) {
  serving_ = -1;
  clocks().queue(engine << 4 | queue).consumed += transferred_;
  transferred_ = 0;
  if (!state_.strict->trapped()) return std::nullopt;
  StrictMode::Trap trap = state_.strict->take_trap();
  look_for_transfer(trap.fault, static_cast<int>(engine << 4 | queue));
  return trap;
}

void StrictObserver::acquire_waits(const Sequencer& s, const isa::Instruction& i) {
  for (const isa::Wait& wait : i.wait) {
    if (wait.condition == NEURON_WAIT_NONE) continue;
    const unsigned cell = wait.index + (wait.event ? NEURON_SEMAPHORES : 0);
    clocks().acquire(s.engine, cell);
    clocks().acquire_units(s.engine, cell, needed_units(s, wait));
  }
}

Fault StrictObserver::check(Sequencer& s, const isa::Instruction& i) {
  for (const isa::Operand* operand : {&i.dst, &i.src0, &i.src1}) {
    // The unit refuses this instruction.
    if (operand->present() && operand->elements() > kMaxElements) return {};
  }
  Fault fault = state_.strict->check(i, s.engine, s.pc, state_.memory);
  look_for_transfer(fault, -1);
  return fault;
}

Fault StrictObserver::take_fault() {
  if (!state_.strict->trapped()) return {};
  Fault fault = state_.strict->take_trap().fault;
  look_for_transfer(fault, -1);
  return fault;
}

void StrictObserver::look_for_transfer(Fault& fault, int own) {
  if (fault.code != NEURON_FAULT_UNINITIALISED) return;
  const auto where = static_cast<uint32_t>(fault.address);
  const bool psum = (where & NEURON_STRICT_PSUM) != 0;
  const uint64_t partition = where >> NEURON_STRICT_PARTITION_SHIFT & 127;
  const uint64_t address = state_.window + (where & NEURON_STRICT_PLACE_MASK) +
                           (psum ? NEURON_CORE_PSUM + partition * NEURON_PSUM_PARTITION_STRIDE
                                 : partition * NEURON_SBUF_PARTITION_STRIDE);
  for (unsigned engine = 0; engine < kDmaEngines; ++engine) {
    for (uint32_t work = state_.dma[engine]->work_mask(); work != 0; work &= work - 1) {
      const auto queue = static_cast<unsigned>(std::countr_zero(work));
      const unsigned number = engine << 4 | queue;
      if (own == static_cast<int>(number)) continue;
      const auto ahead = state_.dma[engine]->pending_write(queue, address);
      if (!ahead) continue;
      state_.strict->name_pending(fault, own < 0 ? 0 : static_cast<unsigned>(own), number, *ahead);
      return;
    }
  }
}

uint32_t StrictObserver::pending_descriptors(unsigned engine, unsigned queue) const {
  const chip::RingState ring = state_.dma[engine]->ring_state(queue, false);
  return ring.length - ring.room;
}

}  // namespace neuron::core
