// SPDX-License-Identifier: Apache-2.0
// The scheduler: which actor is next, DMA engines in model time, waking of waiters.
#include "driver/emulator/neuroncore/group/execution_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <utility>

namespace neuron::core {
namespace {

// The host's clock is read once for this many units of work (an event counts one).
constexpr uint32_t kEffortPerClock = 1024;
// Packets taken together when no other queue of the DMA engine has work; with several, one at a
// time in turn, as the hardware does.
constexpr uint32_t kRunPackets = 16;

template <size_t... I>
std::array<UnitContext, sizeof...(I)> make_units(CoreMemory& memory, Scratch& scratch,
                                                 std::index_sequence<I...>) {
  return {{UnitContext{.memory = memory, .scratch = scratch, .engine = I}...}};
}

std::array<uint64_t, kDmaEngines> dma_windows(const chip::ChipLayout& layout, unsigned core) {
  std::array<uint64_t, kDmaEngines> windows;
  for (unsigned i = 0; i < kDmaEngines; ++i) {
    windows[i] = layout.device_of(layout.udma(core * kDmaEngines + i));
  }
  return windows;
}

}  // namespace

ExecutionGroup::ExecutionGroup(const chip::CoreConnections& connections,
                               chip::RunnableListener* listener)
    : core_(connections.core),
      chip_(connections.routing_id),
      bus_(connections.bus),
      window_(bus_.layout().core_address(core_)),
      doorbells_(dma_windows(bus_.layout(), core_)),
      semaphores_(connections.semaphores),
      notifications_(connections.notifications),
      dma_(connections.engines),
      cc_(connections.cc),
      cc_count_(connections.cc_count),
      listener_(listener),
      injected_(connections.faults != nullptr ? *connections.faults : chip::ChipFaults::none()),
      limits_(isa::limits_of(bus_.layout().generation)),
      memory_(limits_.sbuf_partition_bytes),
      scratch_(std::make_unique<Scratch>()),
      strict_(StrictMode::wanted() ? std::make_unique<StrictMode>() : nullptr),
      units_(make_units(memory_, *scratch_, std::make_index_sequence<kEngines>())) {
  mail_.reserve(64);
  mail_taken_.reserve(64);
  times_.fill(kNever);
  for (unsigned n = 0; n < kSequencers; ++n) {
    Sequencer& s = sequencers_[n];
    const bool is_cc = n >= kEngines;
    const unsigned k = is_cc ? n - kEngines : 0;
    s.engine = is_cc ? unsigned{NEURON_ENGINE_CC} : n;
    s.place = {.actor = n,
               .semaphores = is_cc ? cc_[k].semaphores : &semaphores_,
               .arrivals = &arrivals_[is_cc ? 1 + k : 0],
               .notifications = is_cc ? cc_[k].notifications : &notifications_,
               .trace_slot = is_cc ? 0u : n};
    s.reset();
  }
  semaphores_.set_listener(this);
  for (chip::UdmaEngine* engine : dma_) engine->set_listener(this);
}

ExecutionGroup*& ExecutionGroup::running_group() {
  static thread_local ExecutionGroup* group = nullptr;
  return group;
}

void ExecutionGroup::set_runnable() {
  if (!runnable_.load(std::memory_order_relaxed)) {
    // Release: pairs with the acquire in runnable().
    runnable_.store(true, std::memory_order_release);
    deadlocked_.store(false, std::memory_order_relaxed);
  }
}

chip::RunResult ExecutionGroup::run(std::chrono::steady_clock::time_point deadline, bool patient) {
  for (;;) {  // bounded: by `deadline`
    if (!run_lock_.try_lock_until(deadline)) {
      settle();  // others have left their mail to who waits
      return chip::RunResult::kBusy;
    }
    drain_mail();
    ExecutionGroup* const outer = std::exchange(running_group(), this);
    const chip::RunResult result = loop(deadline);
    running_group() = outer;
    if (result == chip::RunResult::kBusy) return result;  // lost the lock to who was let in
    const bool awaits =
        patient && result == chip::RunResult::kQuiescent && awaits_peers() && !injected_.off();
    // Before others may write here: who finds a sleeper leaves the group to it.
    const uint32_t word = wake_word_.load();
    if (awaits) sleepers_.fetch_add(1);
    run_lock_.unlock();
    settle();
    if (awaits) {
      const bool woken = wait_for_peers(word, deadline);
      sleepers_.fetch_sub(1);
      if (woken) continue;
      if (runnable()) tell_runnable(false);  // what came meanwhile is a worker's
      return chip::RunResult::kDeadline;
    }
    if (result == chip::RunResult::kDeadline) return result;
    if (runnable()) continue;
    if (sleepers_.load() != 0) wake_runner();  // others who wait for this group
    return result;
  }
}

// CC cores that wait for their program's semaphores, and engines that wait for those of collectives
// or of the other core of a pair (8-15): what they wait for comes from elsewhere, or is a fault
// that only a deadline can find.
bool ExecutionGroup::awaits_peers() const {
  for (unsigned n = 0; n < running_sequencers_; ++n) {
    const Sequencer& s = sequencers_[n];
    if (s.state != NEURON_STATE_WAITING || s.dma_wait || s.current == nullptr) continue;
    if (s.issue_at != kNever || resumes(s)) continue;
    // A collective that its own program has not begun waits for that first.
    const auto has_not_begun = [&](const isa::Wait& wait) {
      return wait.condition != NEURON_WAIT_NONE && wait.index == NEURON_CC_SEM_GO &&
             !wait_holds(s, wait);
    };
    const auto& waits = s.current->decoded.wait;
    if (s.is_cc() && std::any_of(waits.begin(), waits.end(), has_not_begun)) continue;
    for (const isa::Wait& wait : waits) {
      const bool of_peers =
          s.is_cc() ? wait.index >= NEURON_CC_SEM_PROGRAM_FIRST
                    : wait.index >= NEURON_SEM_CC_FIRST ||
                          (wait.index > NEURON_SEM_LAUNCH && wait.index < NEURON_SEM_PROGRAM_FIRST);
      if (of_peers && wait.condition != NEURON_WAIT_NONE && !wait_holds(s, wait)) return true;
    }
  }
  return false;
}

// Counted among sleepers_ since the group was quiet, when wake_word_ was `word`. False: the
// deadline has passed.
bool ExecutionGroup::wait_for_peers(uint32_t word, std::chrono::steady_clock::time_point deadline) {
  // Messages of peers that run at this moment come within microseconds; giving the host's core away
  // to them is quicker than sleeping.
  constexpr unsigned kYields = 16;
  const auto woken = [&] {
    return wake_word_.load() != word || runnable() || mail_waiting_.load();
  };
  for (unsigned n = 0; n < kYields; ++n) {
    if (woken()) return true;
    sched_yield();
  }
  // Sequentially consistent: either wake_runner() sees that somebody is asleep, or this thread sees
  // its word.
  asleep_.fetch_add(1);
  bool in_time = true;
  while (in_time && !woken()) {  // bounded: by `deadline`
    const auto left = deadline - std::chrono::steady_clock::now();
    in_time = left > left.zero();
    if (!in_time) break;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(std::min<int64_t>(ns / 1'000'000'000, 3600));
    timeout.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&wake_word_), FUTEX_WAIT_PRIVATE, word, &timeout,
            nullptr, 0);
  }
  asleep_.fetch_sub(1);
  return in_time;
}

// Behind a write from outside that has made the group runnable, or has left mail for it.
void ExecutionGroup::wake_runner() {
  wake_word_.fetch_add(1);
  if (asleep_.load() == 0) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&wake_word_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

chip::RunResult ExecutionGroup::loop(std::chrono::steady_clock::time_point deadline) {
  for (;;) {  // bounded: by `deadline`, looked at every kEffortPerClock units of work
    if (mail_waiting_.load(std::memory_order_relaxed) ||
        visitors_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      if (!attend(deadline)) return chip::RunResult::kBusy;
    }
    unsigned actor = 0;
    ModelTime time = times_[0];
    for (unsigned e = 1; e < running_sequencers_; ++e) {
      if (times_[e] < time) {
        time = times_[e];
        actor = e;
      }
    }
    for (uint32_t mask = dma_times_; mask != 0; mask &= mask - 1) {
      const unsigned d = kSequencers + static_cast<unsigned>(std::countr_zero(mask));
      if (times_[d] < time) {
        time = times_[d];
        actor = d;
      }
    }
    if (time == kNever) {
      if (held_launches_ != 0 && !in_execution_) {
        release_held_launch();
        continue;
      }
      // Release: pairs with runnable() and deadlocked(), so that who sees the group quiet also sees
      // what it has written.
      deadlocked_.store(in_execution_ && !halted_by_debugger() && !awaits_peers(),
                        std::memory_order_release);
      runnable_.store(false, std::memory_order_release);
      return chip::RunResult::kQuiescent;
    }
    if (++effort_ >= kEffortPerClock) [[unlikely]] {
      effort_ = 0;
      if (std::chrono::steady_clock::now() >= deadline) return chip::RunResult::kDeadline;
    }
    now_ = time;
    time_runs_ = true;
    if (time_limit_ != 0 && in_execution_ && time > launch_start_ + time_limit_) [[unlikely]] {
      Sequencer& s = sequencers_[actor < kSequencers ? actor : unsigned{NEURON_ENGINE_SP}];
      raise(s, make_fault(NEURON_FAULT_TIME_LIMIT, time_limit_), s.pc, 0, 0, time);
      time_limit_ = 0;
      continue;
    }
    if (actor < kSequencers) {
      step_sequencer(sequencers_[actor], time);
    } else {
      step_dma(actor - kSequencers, time);
    }
  }
}

void ExecutionGroup::step_sequencer(Sequencer& s, ModelTime now) {
  while (s.pending_count != 0 && s.pending[0].time <= now) {
    const PendingUpdate update = s.pending[0];
    s.pop_pending();
    if (!apply_update(s, update, now)) break;
  }
  if (s.issue_at <= now) issue(s, now);
  schedule(s);
}

void ExecutionGroup::wake(unsigned block, bool event, unsigned index, ModelTime now) {
  if (block != 0) return wake_one(sequencers_[kEngines + block - 1], event, index, now);
  unsigned mask = event ? event_waiters_[index] : semaphore_waiters_[index];
  for (; mask != 0; mask &= mask - 1) {
    wake_one(sequencers_[static_cast<unsigned>(std::countr_zero(mask))], event, index, now);
  }
}

// A cell has changed at `now`, which may lie before this group's own time: the change came from
// another group, or follows from one that did. Who would not have had to wait does not.
void ExecutionGroup::wake_one(Sequencer& s, bool event, unsigned index, ModelTime now) {
  if (s.state != NEURON_STATE_WAITING || s.issue_at != kNever || s.current == nullptr) return;
  if (s.dma_wait || resumes(s)) return;
  const isa::Instruction& i = s.current->decoded;
  bool all = true;
  for (unsigned n = 0; n < i.wait.size(); ++n) {
    const isa::Wait& wait = i.wait[n];
    if (wait.condition == NEURON_WAIT_NONE) continue;
    const bool holds = wait_holds(s, wait);
    all = all && holds;
    if (wait.index == index && wait.event == event && holds) {
      s.held_from[n] = std::max(now, held_from(s, wait));
    }
  }
  if (!all) return;
  const ModelTime held = std::max(s.held_from[0], s.held_from[1]);
  s.issue_at = held < s.wait_since ? s.wait_since : held + kSemaphoreLatency;
  schedule(s);
  set_runnable();
}

// At quiescence nothing is in flight, so that all times can start again from 0.
void ExecutionGroup::reset_time() {
  if (strict_) strict_->clocks().raise_floor();
  if (!time_runs_) return;
  time_runs_ = false;
  now_ = 0;
  launch_start_ = 0;
  if (links_used_) {
    for (chip::LinkTimes& times : *links_) times.fill(0);
    links_used_ = false;
  }
  for (Sequencer& s : sequencers_) {
    s.last_complete = s.array_free = s.load_free = 0;
    s.wait_since = 0;
  }
}

void ExecutionGroup::semaphore_changed(const chip::SemaphoreChange& change,
                                       const chip::Access& access) {
  changed(0, change, access);
}

void ExecutionGroup::semaphore_refused(neuron_fault fault, const chip::SemaphoreChange& change,
                                       const chip::Access& access) {
  refused(0, fault, change, access);
}

void ExecutionGroup::changed(unsigned block, const chip::SemaphoreChange& change,
                             const chip::Access& access) {
  const ModelTime now = access.time;
  chip::NotificationBlock& notifications =
      block == 0 ? notifications_ : *cc_[block - 1].notifications;
  if (notifications.enabled(NEURON_NQ_SLOT_SEMAPHORE)) {
    chip::Notification entry;
    entry.kind = NEURON_NK_SEMAPHORE;
    entry.time = now;
    entry.info = {change.index | (change.event ? 256u : 0u), change.after, change.before};
    notifications.post(NEURON_NQ_SLOT_SEMAPHORE, entry);
  }
  if (strict_ && block == 0) note_semaphore(change, access);
  wake(block, change.event, change.index, now);
}

void ExecutionGroup::refused(unsigned block, neuron_fault fault,
                             const chip::SemaphoreChange& change, const chip::Access& access) {
  const uint32_t cell = change.index | (change.event ? 256u : 0u);
  chip::NotificationBlock& notifications =
      block == 0 ? notifications_ : *cc_[block - 1].notifications;
  notifications.post_error(fault, access, {cell, change.before, change.operand});
  // A refused update of a running execution is as fatal as one by an instruction.
  if (!inside() || access.core != core_ || access.engine > NEURON_ENGINE_CC) return;
  Sequencer& s = sequencers_[owner_of(access)];
  if (!s.active()) return;
  Fault f = make_fault(fault, cell, change.before);
  f.detail = change.operand;
  raise(s, f, s.pc, 0, 0, access.time);
  schedule(s);
}

// The sequencer behind an access of this core; who is not one counts as SP.
unsigned ExecutionGroup::owner_of(const chip::Access& access) const {
  if (access.core == core_) {
    if (access.engine < kEngines) return access.engine;
    if (access.engine == NEURON_ENGINE_CC && access.unit < cc_count_) return kEngines + access.unit;
  }
  return NEURON_ENGINE_SP;
}

void ExecutionGroup::dma_rung(unsigned engine, unsigned queue, const chip::Access& access) {
  const unsigned index = engine - core_ * kDmaEngines;
  if (index >= kDmaEngines || queue >= NEURON_DMA_QUEUES) return;
  if (inside()) {
    activate_dma(index, queue, access);
  } else {
    ring_from_outside({index << 8 | queue, 0, MailKind::kDoorbell, access});
  }
}

void ExecutionGroup::activate_dma(unsigned engine, unsigned queue, const chip::Access& access) {
  if (ring_waiter_ != 0) ring_has_room(access.time);
  if (!dma_[engine]->has_work(queue)) return;
  const unsigned index = dma_actor(engine, queue);
  DmaActor& actor = actors_[index];
  const auto owner = static_cast<uint8_t>(owner_of(access));
  const uint32_t bit = 1u << queue;
  if (strict_) note_doorbell(engine, queue, access, (actor.active & bit) == 0);
  if ((actor.active & bit) == 0) {
    actor.active |= bit;
    actor.ready[queue] = access.time + kDmaStart;
    ++dma_in_flight_[owner];
  } else if (actor.owner[queue] != owner) {
    --dma_in_flight_[actor.owner[queue]];
    ++dma_in_flight_[owner];
  }
  actor.owner[queue] = owner;
  actor.owner_pc[queue] = sequencers_[owner].pc;
  actor.owner_opcode[queue] = NEURON_OP_DMA_TRIGGER;
  if (sequencers_[owner].current != nullptr && resumes(sequencers_[owner])) {
    actor.owner_opcode[queue] = sequencers_[owner].current->decoded.opcode;
  }
  actor.owner_debug[queue] =
      sequencers_[owner].current != nullptr ? sequencers_[owner].current->decoded.debug : 0;
  if (!actor.busy) schedule_dma(index, access.time);
  set_runnable();
}

void ExecutionGroup::deactivate_dma(unsigned engine, unsigned queue, ModelTime now) {
  DmaActor& actor = actor_of(engine, queue);
  actor.active &= ~(1u << queue);
  const unsigned owner = actor.owner[queue];
  if (--dma_in_flight_[owner] != 0 || (dma_waiters_ >> owner & 1) == 0) return;
  dma_waiters_ &= static_cast<uint8_t>(~(1u << owner));
  Sequencer& s = sequencers_[owner];
  if (s.state != NEURON_STATE_WAITING || !s.dma_wait) return;
  s.issue_at = now;
  schedule(s);
}

// When the links have taken a run's bytes.
ModelTime ExecutionGroup::pass_links(const chip::DmaRun& run, unsigned owner, ModelTime now) {
  if (links_ == nullptr) links_ = std::make_unique<std::array<chip::LinkTimes, kSequencers>>();
  links_used_ = true;
  ModelTime end = now;
  for (unsigned n = 0; n < run.legs; ++n) {
    const chip::DmaLeg& leg = run.leg[n];
    end = std::max(end, bus_.fabric()->transfer(bus_.node(), leg.address, leg.bytes, leg.write, now,
                                                (*links_)[owner]));
  }
  return end;
}

// Takes the next run into service, or sets the time at which a queue becomes ready.
void ExecutionGroup::schedule_dma(unsigned index, ModelTime now) {
  const unsigned engine = index % kDmaEngines;
  DmaActor& actor = actors_[index];
  ModelTime next = kNever;
  // Round robin: queues behind the last one first.
  for (unsigned step = 1; step <= NEURON_DMA_QUEUES && actor.active != 0; ++step) {
    const unsigned queue = (actor.queue + step) % NEURON_DMA_QUEUES;
    if ((actor.active >> queue & 1) == 0) continue;
    if (actor.ready[queue] > now) {
      next = std::min(next, actor.ready[queue]);
      continue;
    }
    const bool alone = std::has_single_bit(actor.active);
    const chip::DmaRun run = dma_[engine]->has_work(queue)
                                 ? dma_[engine]->next_run(queue, alone ? kRunPackets : 1)
                                 : chip::DmaRun{};
    if (run.packets == 0) {  // the rest of a packet is not there yet
      deactivate_dma(engine, queue, now);
      continue;
    }
    actor.busy = true;
    actor.queue = static_cast<uint8_t>(queue);
    actor.packets = run.packets;
    actor.bytes = run.bytes;
    actor.start = now;
    actor.end = now + dma_time((run.descriptors + 1) / 2, run.time_bytes);
    dma_bytes_ += run.bytes;
    for (unsigned n = 0; n < run.legs; ++n) link_bytes_ += run.leg[n].bytes;
    if (run.legs != 0) actor.end = std::max(actor.end, pass_links(run, actor.owner[queue], now));
    next = actor.end;
    break;
  }
  times_[kSequencers + index] = next;
  if (next == kNever) {
    dma_times_ &= ~(1u << index);
  } else {
    dma_times_ |= 1u << index;
  }
}

void ExecutionGroup::step_dma(unsigned index, ModelTime now) {
  const unsigned engine = index % kDmaEngines;
  DmaActor& actor = actors_[index];
  if (actor.busy) {
    const chip::Access access{chip::Origin::kDma, static_cast<uint8_t>(core_), NEURON_ENGINE_DMA,
                              now};
    // A fault comes back through dma_faulted.
    if (!dma_[engine]->try_execute_run(actor.queue, actor.packets, access, now - actor.start)) {
      sched_yield();  // the host serves this queue; the actor's time stays, so it is tried again
      return;
    }
    actor.busy = false;
    if (ring_waiter_ != 0) ring_has_room(now);
    if (strict_) end_transfers(engine, actor.queue, now);
    effort_ += static_cast<uint32_t>(actor.bytes >> 12);
    if (!dma_[engine]->has_work(actor.queue) && (actor.active >> actor.queue & 1) != 0) {
      deactivate_dma(engine, actor.queue, now);
    }
  }
  schedule_dma(index, now);
}

void ExecutionGroup::dma_faulted(const chip::DmaFault& fault, const chip::Access& access) {
  if (!inside()) return;  // a host doorbell: its error is notified, nobody's program is concerned
  core_faults_ |= 1u << 8;
  const unsigned engine = fault.engine - core_ * kDmaEngines;
  if (engine >= kDmaEngines || fault.queue >= NEURON_DMA_QUEUES) return;
  DmaActor& actor = actor_of(engine, fault.queue);
  Sequencer& s = sequencers_[actor.owner[fault.queue]];
  if (s.state == NEURON_STATE_FAULT || s.state == NEURON_STATE_IDLE) return;
  Fault f = make_fault(fault.code, fault.address, fault.engine << 8 | fault.queue);
  f.notified = true;
  raise(s, f, actor.owner_pc[fault.queue], actor.owner_debug[fault.queue],
        actor.owner_opcode[fault.queue], access.time);
  schedule(s);
}

void ExecutionGroup::reset() {
  if (inside()) return reset_locked(false);
  if (!lock_as_visitor()) return;
  drain_mail();
  reset_locked(false);
  run_lock_.unlock();
  settle();
  if (sleepers_.load() != 0) wake_runner();
}

void ExecutionGroup::reset_cc(unsigned k) {
  if (k >= cc_count_) return;
  const bool own = inside();
  if (!own && !lock_as_visitor()) return;
  if (!own) drain_mail();
  reset_sequencer(sequencers_[kEngines + k]);
  cc_[k].semaphores->reset();
  arrivals_[1 + k].clear();
  if (own) return;
  run_lock_.unlock();
  settle();
  if (sleepers_.load() != 0) wake_runner();  // perhaps nobody awaits peers any more
}

// What a program leaves in an engine that the next one could see.
void ExecutionGroup::reset_unit(UnitContext& unit) {
  unit.accumulator.fill(0.0f);
  unit.random_position = 0;
  unit.random_numbers = {};
  unit.table.clear();
}

void ExecutionGroup::reset_sequencer(Sequencer& s) {
  s.reset();
  core_faults_ &= ~(1u << s.place.actor);
  schedule(s);
}

// CC cores are stopped with their core; their semaphores are reset with them, or on their own.
void ExecutionGroup::reset_locked(bool with_cc) {
  for (Sequencer& s : sequencers_) s.reset();
  for (UnitContext& unit : units_) reset_unit(unit);
  running_sequencers_ = kEngines;
  tensor_engine_.reset();
  actors_.fill({});
  times_.fill(kNever);
  dma_times_ = 0;
  semaphore_waiters_.fill(0);
  event_waiters_.fill(0);
  dma_in_flight_.fill(0);
  dma_waiters_ = ring_waiter_ = 0;
  generation_.active = false;
  reset_time();
  time_limit_ = 0;
  in_execution_ = false;
  held_launches_ = 0;
  core_faults_ = 0;
  core_mode_ = NEURON_CORE_MODE_STOP_ALL;
  seed_ = 0;
  for (chip::UdmaEngine* engine : dma_) engine->set_seed(0);
  // Mail stays: what was written before this reset has been applied, what waits came after it.
  semaphores_.reset();
  arrivals_[0].clear();
  for (unsigned k = 0; with_cc && k < cc_count_; ++k) {
    cc_[k].semaphores->reset();
    arrivals_[1 + k].clear();
  }
  memory_.fill(fill_);  // FILL itself survives, or it could never take effect
  if (strict_) strict_->forget();
  deadlocked_.store(false, std::memory_order_relaxed);
  runnable_.store(false, std::memory_order_release);  // pairs with runnable()
}

}  // namespace neuron::core
