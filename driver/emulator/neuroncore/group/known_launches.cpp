// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/known_launches.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "driver/emulator/chip/host_memory.h"
#include "hw/udma.h"

namespace neuron::core {
namespace {

thread_local uint64_t repeated_launches = 0;
thread_local uint64_t remembered_launches = 0;

}  // namespace

uint64_t KnownLaunches::repeated_by_this_thread() { return repeated_launches; }
uint64_t KnownLaunches::remembered_by_this_thread() { return remembered_launches; }

bool KnownLaunches::wanted() {
  const char* text = std::getenv("NEURON_EMULATOR_KNOWN_LAUNCHES");
  if (text == nullptr || *text == '\0' || std::strcmp(text, "1") == 0) return true;
  if (std::strcmp(text, "0") == 0) return false;
  static std::once_flag told;  // every core asks, one reports
  std::call_once(told, [text] {
    std::fprintf(stderr,
                 "NEURON_EMULATOR_KNOWN_LAUNCHES is \"%.32s\", expected 0 (every launch is "
                 "executed event by event) or 1 (known ones are executed as one step); it stays "
                 "1\n",
                 text);
  });
  return true;
}

void KnownLaunches::reset() {
  watcher_.drop();
  known_.clear();
  oldest_ = 0;
  epochs_ = {};
}

// What every stretch takes for granted.
bool KnownLaunches::is_plain() const {
  const Scheduler& scheduler = state_.scheduler;
  if (state_.injected.armed() || state_.injected.off()) return false;
  if (scheduler.sequencers_in_use() != kEngines || scheduler.is_dma_at_work()) return false;
  if (scheduler.now() != 0 || execution_.in_progress() || state_.generation.active) return false;
  if (state_.faults != 0 || state_.arrivals[0].is_crowded()) return false;
  if (state_.strict) {
    // Without an access since the launch there is nothing to order, and nothing that is kept.
    const StrictClocks& clocks = state_.strict->clocks();
    if (clocks.active() || clocks.has_heard() || state_.strict->trapped()) return false;
  }
  for (unsigned n = 0; n < kEngines; ++n) {
    const Sequencer& s = state_.sequencers[n];
    if (dma_.in_flight(s) != 0 || dma_.drained_at(s) != 0) return false;
    if (s.pending_count != 0 || s.any_breakpoint || s.steps_left != 0) return false;
    if (s.retired != s.launch_retired || s.fault_latched) return false;
    if (s.active() && s.kept_code() == nullptr) return false;
  }
  return true;
}

// Whether no engine was started since the launch before. If one was, its program may be another.
bool KnownLaunches::is_same_program() {
  bool same = true;
  for (unsigned n = 0; n < kEngines; ++n) {
    const uint32_t epoch = state_.sequencers[n].epoch();
    same = same && epochs_[n] == epoch;
    epochs_[n] = epoch;
  }
  if (same) return true;
  known_.clear();
  oldest_ = 0;
  credit_ = kMostCredit;
  return false;
}

bool KnownLaunches::repeat() {
  if (!allowed_) return false;
  watcher_.drop();
  if (!is_same_program() || !is_plain()) return false;
  // What is found about the host's memory stays so until the step is done.
  const chip::Transfer transfer(state_.bus.host_memory());
  for (const auto& known : known_) {
    if (!is_next(*known)) continue;
    repeat(*known);
    ++repeated_launches;
    credit_ = std::min(credit_ + 1, kMostCredit);
    return true;
  }
  if (credit_ >= kPrice) {
    credit_ -= kPrice;
    watcher_.begin();
  }
  return false;
}

void KnownLaunches::end() {
  std::unique_ptr<KnownLaunch> known = watcher_.end();
  if (known == nullptr) return;
  ++remembered_launches;
  if (known_.size() < kMost) {
    known_.push_back(std::move(known));
  } else {
    known_[oldest_] = std::move(known);
    oldest_ = (oldest_ + 1) % kMost;
  }
}

bool KnownLaunches::has_same_cells(const KnownLaunch& known) const {
  return std::all_of(known.cells.begin(), known.cells.end(), [this](const KnownLaunch::Cell& cell) {
    return state_.semaphores.value(cell.event, cell.index) == cell.before &&
           waits_.waiters(cell.event, cell.index) == cell.waiters_before &&
           !state_.arrivals[0].is_timed(ArrivalTimes::cell_of(cell.event, cell.index));
  });
}

bool KnownLaunches::has_same_words(const KnownLaunch& known) const {
  for (const KnownLaunch::Load& load : known.loads) {
    const Sequencer& s = state_.sequencers[load.engine];
    uint32_t value = 0;
    if (!state_.bus.read32(load.address, value, state_.access_of(s, load.time))) return false;
    if (value != load.value) return false;
  }
  return true;
}

bool KnownLaunches::has_same_code(const KnownLaunch& known) const {
  for (const KnownLaunch::Code& code : known.code) {
    const std::byte* memory =
        state_.sequencers[code.engine].kept_code() + size_t{code.first} * NEURON_INSTRUCTION_BYTES;
    if (std::memcmp(memory, code.bytes.data(), code.bytes.size()) != 0) return false;
  }
  return true;
}

// Whether the launch that is there does what the known one has done. Cheap looks come first.
bool KnownLaunches::is_next(const KnownLaunch& known) {
  if (!has_same_cells(known) || LaunchWatcher::rings(state_) != known.rings) return false;
  if (!has_same_words(known)) return false;
  for (unsigned n = 0; n < kEngines; ++n) {
    const Sequencer& s = state_.sequencers[n];
    const KnownLaunch::Engine& engine = known.engines[n];
    if (s.mode != engine.mode || s.prog_count != engine.program_count) return false;
    if (s.program_base() != engine.program_base) return false;
    if (static_cast<const SequencerState&>(s) != engine.before) return false;
  }
  if (!has_same_code(known)) return false;
  asked_ = execution_.asked(state_.sequencers[known.beginner]);
  const neuron_launch_record& record = asked_.record;
  if (record.pair != 0) return false;
  if (record.time_limit != 0 && record.time_limit < known.last_time) return false;
  if (!known.completion) return true;
  report_ = execution_.record_place(state_.sequencers[known.completion->engine], true);
  return !report_.is_missing();
}

void KnownLaunches::repeat(const KnownLaunch& known) {
  execution_.begin(asked_);
  for (const KnownLaunch::Rewind& rewind : known.rewinds) {
    const Sequencer& s = state_.sequencers[rewind.engine];
    state_.bus.write32(rewind.address, NEURON_UDMAQ_SW_RESET, state_.access_of(s, rewind.time));
  }
  for (const KnownLaunch::Cell& cell : known.cells) {
    if (cell.after != cell.before) {
      const neuron_update_operation operation = !cell.event       ? NEURON_UPDATE_WRITE
                                                : cell.after != 0 ? NEURON_UPDATE_EVENT_SET
                                                                  : NEURON_UPDATE_EVENT_CLEAR;
      state_.semaphores.change_exclusive(operation, cell.index, cell.after);
    }
    waits_.set_waiters(cell.event, cell.index, cell.waiters_after);
    if (!cell.arrivals.entries.empty()) {
      state_.arrivals[0].keep(ArrivalTimes::cell_of(cell.event, cell.index), cell.arrivals);
    }
  }
  size_t entry = 0;
  if (known.completion) {
    const KnownLaunch::Completion& completion = *known.completion;
    for (; entry < completion.entries; ++entry) state_.record_again(known.entries[entry]);
    for (unsigned n = 0; n < kEngines; ++n) state_.sequencers[n].busy = completion.busy[n];
    execution_.report(state_.sequencers[completion.engine], &report_, completion.status,
                      completion.pc, completion.debug, completion.time);
  }
  for (; entry < known.entries.size(); ++entry) state_.record_again(known.entries[entry]);
  for (unsigned n = 0; n < kEngines; ++n) {
    Sequencer& s = state_.sequencers[n];
    static_cast<SequencerState&>(s) = known.engines[n].after;
    s.retired += known.engines[n].retired;
    state_.scheduler.schedule(s);
  }
  state_.scheduler.advance(known.last_actor, known.last_time);
  state_.scheduler.spend(known.events);
}

}  // namespace neuron::core
