// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/launch_watcher.h"

#include <algorithm>
#include <utility>

#include "hw/udma.h"

namespace neuron::core {
namespace {

bool is_pointer(const isa::Scalar& scalar) { return scalar.kind == NEURON_SCALAR_POINTER; }

// A loop whose body ends with the instruction counts the register up behind it.
bool counts_up(const Sequencer& s, unsigned number) {
  for (unsigned level = s.loop_base; level < s.loop_depth; ++level) {
    if (s.loops[level].end == s.pc + 1 && s.loops[level].reg == number) return true;
  }
  return false;
}

}  // namespace

LaunchWatcher::LaunchWatcher(CoreState& state, const Execution& execution, const Waits& waits)
    : state_(state), execution_(execution), waits_(waits) {
  const chip::ChipLayout& layout = state_.bus.layout();
  for (unsigned d = 0; d < kDmaEngines; ++d) {
    queues_[d] = layout.device_of(layout.udma(state_.core * kDmaEngines + d));
  }
}

uint32_t LaunchWatcher::rings(const CoreState& state) {
  constexpr unsigned kSemaphores = NEURON_NQ_SLOT_SEMAPHORE;
  uint32_t rings = state.notifications.enabled(kSemaphores) ? 1u << kSemaphores : 0;
  for (unsigned n = 0; n < kEngines; ++n) {
    const unsigned slot = state.sequencers[n].place.trace_slot;
    if (state.notifications.enabled(slot)) rings |= 1u << slot;
  }
  return rings;
}

void LaunchWatcher::begin() {
  drop();
  watches_ = true;
  seen_ = std::make_unique<KnownLaunch>();
  seen_->rings = rings(state_);
  rings_turned_ = state_.notifications.times_turned();
  for (unsigned n = 0; n < kEngines; ++n) {
    const Sequencer& s = state_.sequencers[n];
    KnownLaunch::Engine& engine = seen_->engines[n];
    engine.before = s;
    engine.program_base = s.program_base();
    engine.program_count = s.prog_count;
    engine.epoch = s.epoch();
    engine.mode = s.mode;
    retired_before_[n] = s.retired;
    if (s.state == NEURON_STATE_WAITING && s.current != nullptr) {
      code_[n][s.current->pc] = s.current;
    }
  }
  state_.watched = &seen_->entries;
}

void LaunchWatcher::drop() {
  watches_ = disturbed_ = begun_ = executing_ = false;
  state_.watched = nullptr;
  seen_.reset();
  doing_ = {};
  has_cell_.reset();
  for (auto& code : code_) code.clear();
}

void LaunchWatcher::touch(bool event, unsigned index) {
  const unsigned cell = ArrivalTimes::cell_of(event, index);
  if (has_cell_[cell]) return;
  has_cell_.set(cell);
  seen_->cells.push_back({.event = event,
                          .index = static_cast<uint8_t>(index),
                          .waiters_before = waits_.waiters(event, index),
                          .before = state_.semaphores.value(event, index)});
  // Whatever another group has sent would have to come again at the same time.
  if (state_.arrivals[0].is_timed(cell)) disturbed_ = true;
}

// A word of the core's own semaphores and events.
bool LaunchWatcher::touch_own(uint64_t address, bool write, uint32_t value) {
  const uint64_t at = address - state_.window - NEURON_CORE_SEMAPHORES;
  if (at >= NEURON_SEM_BLOCK_SIZE || at % 4 != 0) return false;
  neuron_update_operation operation = NEURON_UPDATE_NONE;
  unsigned index = 0;
  uint32_t operand = 0;
  if (write) {
    if (!chip::SemaphoreBlock::decode_write(at, value, operation, index, operand)) return false;
    touch(chip::SemaphoreBlock::is_event(operation), index);
    return true;
  }
  if (!state_.semaphores.peek(at, value)) return false;
  touch(at < NEURON_SEM_BLOCK_EVENT + 4 * NEURON_EVENTS, static_cast<unsigned>(at / 4 & 255));
  return true;
}

bool LaunchWatcher::rewinds(uint64_t address, uint32_t value) const {
  if (value != NEURON_UDMAQ_SW_RESET) return false;
  for (const uint64_t base : queues_) {
    const uint64_t at = address - base;
    if (at >= NEURON_UDMA_SIZE) continue;
    const bool s2m = at >= NEURON_UDMA_S2M;
    const uint64_t first = NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, 0);
    const uint64_t each = NEURON_UDMA_QUEUE(0u, 1) - NEURON_UDMA_QUEUE(0u, 0);
    if (at < first || (at - first) / each >= NEURON_DMA_QUEUES) return false;
    return (at - first) % each == (s2m ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL);
  }
  return false;
}

bool LaunchWatcher::can_load(const Sequencer& s, const isa::Instruction& i, ModelTime time) {
  const uint64_t address = i.address.addr;
  if (touch_own(address, false, 0)) return true;
  const chip::ChipLayout& layout = state_.bus.layout();
  if (!layout.is_hbm(address) && !layout.is_host(address)) return false;
  if (state_.bus.direct(address, 4) == nullptr) return false;
  // The launch itself may write there before it loads: what lies there before it would say nothing.
  if (state_.notifications.has_in_ring(address, 4)) return false;
  doing_.loads_into = i.flow.rd % NEURON_REGISTERS;
  // The register has the word only until then.
  if (counts_up(s, doing_.loads_into)) return false;
  seen_->loads.push_back({.engine = s.place.actor, .address = address, .time = time});
  return true;
}

bool LaunchWatcher::can_write(const Sequencer& s, const isa::Instruction& i, ModelTime time) {
  const uint32_t value = i.scalar0.present() ? i.scalar0.value : 0;
  if (i.address.count > kMostWords) return false;
  uint64_t address = i.address.addr;
  for (uint32_t n = 0; n < i.address.count;
       ++n, address += static_cast<int64_t>(i.address.stride)) {
    if (touch_own(address, true, value)) continue;
    if (!rewinds(address, value)) return false;
    seen_->rewinds.push_back({.engine = s.place.actor, .address = address, .time = time});
  }
  return true;
}

bool LaunchWatcher::can_issue(const Sequencer& s, const CachedInstruction& entry, ModelTime time) {
  const isa::Instruction& i = entry.decoded;
  if (entry.encoding || entry.dynamic || entry.operands || entry.meets || i.brk) return false;
  if (is_pointer(i.scalar0) || is_pointer(i.scalar1)) return false;
  // Whatever is seen from outside and comes behind the record of the execution would come before it
  // when it is repeated.
  const bool completed = seen_->completion.has_value();
  if (completed && entry.updates && waits_.all_hold(s, i)) return false;
  switch (i.opcode) {
    case NEURON_OP_NOP:
    case NEURON_OP_EVENT:
    case NEURON_OP_DRAIN:
    case NEURON_OP_MOV:
    case NEURON_OP_ALU:
    case NEURON_OP_BRANCH:
    case NEURON_OP_LOOP:
    case NEURON_OP_CALL:
    case NEURON_OP_RET:
      break;
    case NEURON_OP_LOAD:
      if (completed || !can_load(s, i, time)) return false;
      break;
    case NEURON_OP_WRITE:
      if (completed || !can_write(s, i, time)) return false;
      break;
    case NEURON_OP_COMPLETE: {
      if (completed || !execution_.in_progress()) return false;
      KnownLaunch::Completion completion{.engine = s.place.actor,
                                         .status = i.scalar0.present() ? i.scalar0.value : 0,
                                         .pc = s.pc,
                                         .debug = i.debug,
                                         .time = time};
      for (unsigned n = 0; n < kEngines; ++n) completion.busy[n] = state_.sequencers[n].busy;
      doing_.completion = completion;
      break;
    }
    default:
      return false;
  }
  for (const isa::Wait& wait : i.wait) touch(wait.event, wait.index);
  for (const isa::Update& update : i.update) {
    if (update.operation == NEURON_UPDATE_NONE) continue;
    touch(chip::SemaphoreBlock::is_event(static_cast<neuron_update_operation>(update.operation)),
          update.index);
  }
  code_[s.place.actor][s.pc] = &entry;
  return true;
}

// A program may do the same for ever, which would fill the host's memory.
bool LaunchWatcher::is_long() const {
  return std::max({size_t{seen_->events}, seen_->entries.size(), seen_->rewinds.size()}) >= kMost;
}

bool LaunchWatcher::goes_on(unsigned actor, ModelTime time) {
  note_event();
  if (disturbed_ || actor >= kEngines || is_long()) return false;
  Sequencer& s = state_.sequencers[actor];
  for (unsigned n = 0; n < s.pending_count && s.pending[n].time <= time; ++n) {
    if (seen_->completion) return false;
    const isa::Update& update = s.pending[n].update;
    touch(chip::SemaphoreBlock::is_event(static_cast<neuron_update_operation>(update.operation)),
          update.index);
  }
  doing_ = {.actor = actor,
            .retired = s.retired,
            .loads = seen_->loads.size(),
            .rewinds = seen_->rewinds.size()};
  if (s.issue_at <= time && s.active()) {
    Fault fault;
    const CachedInstruction* entry = s.fetch(state_.bus, state_.limits, fault);
    doing_.any = true;
    // If not: note_event() finds that nothing was retired.
    if (entry == nullptr || !can_issue(s, *entry, time)) return false;
  }
  ++seen_->events;
  seen_->last_actor = actor;
  seen_->last_time = time;
  return true;
}

// What the event before has done.
void LaunchWatcher::note_event() {
  bool completed = false;
  if (doing_.any) {
    const Sequencer& s = state_.sequencers[doing_.actor];
    if (s.retired == doing_.retired) {  // it waits, or has not happened
      seen_->loads.resize(doing_.loads);
      seen_->rewinds.resize(doing_.rewinds);
    } else {
      if (seen_->loads.size() != doing_.loads) {
        seen_->loads.back().value = s.registers[doing_.loads_into];
      }
      if (doing_.completion) {
        seen_->completion = doing_.completion;
        seen_->completion->entries = state_.watched_before_report;
        completed = true;
      }
    }
  }
  doing_ = {};
  const bool executing = execution_.in_progress();
  if (executing && !executing_) {
    // One part of two is never repeated.
    const Sequencer& beginner = state_.sequencers[seen_->last_actor];
    if (begun_ || execution_.asked(beginner).record.pair != 0) disturbed_ = true;
    begun_ = true;
    seen_->beginner = seen_->last_actor;
  }
  if (!executing && executing_ && !completed) disturbed_ = true;
  executing_ = executing;
}

bool LaunchWatcher::can_be_repeated() const {
  if (disturbed_ || !begun_ || seen_->events < kFewestEvents) return false;
  if (state_.faults != 0 || state_.generation.active) return false;
  if (state_.arrivals[0].is_crowded()) return false;
  if (state_.scheduler.is_dma_at_work()) return false;
  if (state_.strict && state_.strict->clocks().active()) return false;
  if (rings(state_) != seen_->rings) return false;
  if (state_.notifications.times_turned() != rings_turned_) return false;
  for (unsigned n = 0; n < kEngines; ++n) {
    const Sequencer& s = state_.sequencers[n];
    if (s.pending_count != 0 || s.epoch() != seen_->engines[n].epoch) return false;
    if (s.fault_latched) return false;
  }
  return true;
}

std::unique_ptr<KnownLaunch> LaunchWatcher::end() {
  note_event();
  std::unique_ptr<KnownLaunch> known;
  if (can_be_repeated()) {
    for (KnownLaunch::Cell& cell : seen_->cells) {
      cell.after = state_.semaphores.value(cell.event, cell.index);
      cell.waiters_after = waits_.waiters(cell.event, cell.index);
      cell.arrivals = state_.arrivals[0].kept_of(ArrivalTimes::cell_of(cell.event, cell.index));
    }
    for (unsigned n = 0; n < kEngines; ++n) {
      const Sequencer& s = state_.sequencers[n];
      seen_->engines[n].after = s;
      seen_->engines[n].retired = s.retired - retired_before_[n];
      for (const auto& [pc, entry] : code_[n]) note_code(n, pc, *entry);
    }
    known = std::move(seen_);
  }
  drop();
  return known;
}

void LaunchWatcher::note_code(unsigned engine, uint32_t pc, const CachedInstruction& entry) {
  const KnownLaunch::Code* last = seen_->code.empty() ? nullptr : &seen_->code.back();
  if (last == nullptr || last->engine != engine ||
      last->first + last->bytes.size() / NEURON_INSTRUCTION_BYTES != pc) {
    seen_->code.push_back({.engine = engine, .first = pc, .bytes = {}});
  }
  std::vector<std::byte>& bytes = seen_->code.back().bytes;
  bytes.insert(bytes.end(), entry.bytes.begin(), entry.bytes.end());
}

}  // namespace neuron::core
