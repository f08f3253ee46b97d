// SPDX-License-Identifier: Apache-2.0
// What a core consists of: its connections, memories, units, sequencers and settings.
//
// The classes of this folder share one CoreState; each of them documents the part of the work that
// it does on it. Callers: the holder of the core (host_gate.h); the connections and constants: any
// thread. Owns: SBUF, PSUM, units and sequencers; borrows the connections. Fails: std::bad_alloc
// from the constructor only.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_STATE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_STATE_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/core_connections.h"
#include "driver/emulator/chip/notification_queue.h"
#include "driver/emulator/chip/pair_exchange.h"
#include "driver/emulator/chip/semaphores.h"
#include "driver/emulator/chip/udma_engine.h"
#include "driver/emulator/neuroncore/engines/unit_context.h"
#include "driver/emulator/neuroncore/group/records.h"
#include "driver/emulator/neuroncore/group/scheduler.h"
#include "driver/emulator/neuroncore/sequencer/arrival_times.h"
#include "driver/emulator/neuroncore/sequencer/core_memory.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/emulator/neuroncore/strict/strict_mode.h"

namespace neuron::core {

// Bit of the core's FAULTS register: a DMA queue of the core has faulted.
inline constexpr uint32_t kQueueFault = 1u << 8;

// Registers of the core's control block.
struct CoreSettings {
  uint32_t mode = NEURON_CORE_MODE_STOP_ALL;
  uint32_t seed = 0;
};

struct CoreState {
  // `pair`: strict mode's of the logical core; null: this one has no other core.
  CoreState(const chip::CoreConnections& connections, std::shared_ptr<StrictPair> pair);

  // --- constant ---
  const unsigned core;
  const uint32_t chip;
  chip::Bus& bus;
  const uint64_t window;  // device address of the core's window
  chip::SemaphoreBlock& semaphores;
  chip::NotificationBlock& notifications;
  const std::array<chip::UdmaEngine*, kDmaEngines> dma;
  const std::array<chip::CcConnection, chip::kMaxCcPerCore> cc;
  const unsigned cc_count;
  chip::ChipFaults& injected;
  chip::PairExchange* const exchange;  // null: there is no other core of a pair
  const isa::Limits limits;
  const isa::Timing& timing;

  // --- the holder's ---
  Scheduler scheduler;
  CoreMemory memory;
  std::unique_ptr<Scratch> scratch;
  std::unique_ptr<StrictMode> strict;  // null: off
  std::array<UnitContext, kEngines> units;
  std::array<Sequencer, kSequencers> sequencers;
  std::array<ArrivalTimes, 1 + chip::kMaxCcPerCore> arrivals;  // core, CC cores
  std::array<Records, 1 + chip::kMaxCcPerCore> records;        // core, CC cores
  // The instruction whose descriptors are on their way into rings; one at a time.
  struct Generation {
    bool active = false;
    unsigned actor = 0;
    uint32_t pc = 0;
    uint16_t starts = 0;
  } generation;
  // The queue whose packets a DMA engine executes now: engine << 8 | queue.
  uint32_t served_queue = 0;
  // Who watches a launch (launch_watcher.h) gets all that is recorded, and how much of it was there
  // when the execution was reported; null: nobody watches.
  std::vector<RecordedEntry>* watched = nullptr;
  size_t watched_before_report = 0;
  CoreSettings settings;
  uint32_t fill = CoreMemory::kDefaultFill;  // survives a reset, or it could never take effect
  uint32_t faults = 0;                       // bit n: sequencer n has faulted; and kQueueFault

  // --- any thread's ---
  // Nobody waits any more for what the core does: its loops end, and it rests until its reset.
  std::atomic<bool> halted = false;

  ModelTime now() const { return scheduler.now(); }
  // Semaphores and notifications of the core (block 0) or of CC core block - 1.
  chip::SemaphoreBlock& semaphores_of(unsigned block) {
    return block == 0 ? semaphores : *cc[block - 1].semaphores;
  }
  chip::NotificationBlock& notifications_of(unsigned block) {
    return block == 0 ? notifications : *cc[block - 1].notifications;
  }
  // What actors record for profiles goes into a ring of the core (block 0) or of CC core block - 1
  // a little later (records.h). Inlined, so that fields go from registers to their place: an entry
  // that is handed over in memory is read at once behind its writes, which processors wait for.
  void record(unsigned block, unsigned slot, const chip::Notification& entry) {
    neuron_notification& place = place_of_record(block, slot);
    place = chip::NotificationBlock::encode(entry);
    if (watched != nullptr) [[unlikely]] {
      watch_record(slot, entry);
    }
  }
  // The same for an entry of the core that was recorded before.
  void record_again(const RecordedEntry& recorded) {
    place_of_record(0, recorded.slot) = recorded.entry;
  }
  void record_trace(const Sequencer& s, const chip::Notification& entry) {
    record(s.is_cc() ? s.place.actor - kEngines + 1 : 0, s.place.trace_slot, entry);
  }
  void post_records() {
    if (has_records_) [[unlikely]] {
      post_all_records();
    }
  }
  // An access by a sequencer's instruction.
  chip::Access access_of(const Sequencer& s, ModelTime time) const {
    return {chip::Origin::kEngine, static_cast<uint8_t>(core), static_cast<uint8_t>(s.engine), time,
            static_cast<uint8_t>(s.is_cc() ? s.place.actor - kEngines : 0)};
  }
  // The sequencer behind an access of this core. Every other access counts as SP's.
  unsigned owner_of(const chip::Access& access) const;
  // The sequencer is at the instruction whose descriptors are being written.
  bool resumes(const Sequencer& s) const {
    return generation.active && generation.actor == s.place.actor && generation.pc == s.pc &&
           generation.starts == s.starts;
  }
  bool rounds_stochastically(const Sequencer& s, const isa::Instruction& i) const {
    const unsigned rounding = i.rounding != 0 ? i.rounding : s.mode >> 2 & 3;
    return rounding == 2 || (rounding == 0 && (settings.mode & 1) != 0);
  }
  // The sequencer issues nothing more. Updates of instructions that were issued still happen.
  void stop(Sequencer& s, uint8_t state) {
    s.state = state;
    s.issue_at = kNever;
    s.dma_wait = false;
    scheduler.schedule(s);
  }

 private:
  // Not inlined: the events of a launch without a profile are quicker.
  [[gnu::noinline]] neuron_notification& place_of_record(unsigned block, unsigned slot) {
    has_records_ = true;
    return records[block].add(notifications_of(block), slot);
  }
  [[gnu::noinline]] void watch_record(unsigned slot, const chip::Notification& entry);
  void post_all_records();
  bool has_records_ = false;  // the holder's
};

}  // namespace neuron::core

#endif
