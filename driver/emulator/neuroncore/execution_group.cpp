// SPDX-License-Identifier: Apache-2.0
// The scheduler: which actor is next, DMA engines in model time, waking of waiters.
#include "driver/emulator/neuroncore/execution_group.h"

#include <sched.h>

#include <algorithm>
#include <bit>
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

ExecutionGroup::ExecutionGroup(const chip::CoreConnections& connections, RunnableListener* listener)
    : core_(connections.core),
      chip_(connections.routing_id),
      bus_(connections.bus),
      window_(bus_.layout().core_address(core_)),
      doorbells_(dma_windows(bus_.layout(), core_)),
      semaphores_(connections.semaphores),
      notifications_(connections.notifications),
      dma_(connections.engines),
      listener_(listener),
      injected_(connections.faults != nullptr ? *connections.faults : chip::ChipFaults::none()),
      limits_(isa::limits_of(bus_.layout().generation)),
      memory_(limits_.sbuf_partition_bytes),
      scratch_(std::make_unique<Scratch>()),
      strict_(StrictMode::wanted() ? std::make_unique<StrictMode>() : nullptr),
      units_(make_units(memory_, *scratch_, std::make_index_sequence<kSequencers>())) {
  mail_.reserve(64);
  mail_taken_.reserve(64);
  times_.fill(kNever);
  for (unsigned e = 0; e < kSequencers; ++e) sequencers_[e].reset(e);
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

chip::RunResult ExecutionGroup::run(std::chrono::steady_clock::time_point deadline) {
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
    run_lock_.unlock();
    settle();
    if (result == chip::RunResult::kDeadline || !runnable()) return result;
  }
}

chip::RunResult ExecutionGroup::loop(std::chrono::steady_clock::time_point deadline) {
  for (;;) {  // bounded: by `deadline`, looked at every kEffortPerClock units of work
    if (mail_waiting_.load(std::memory_order_relaxed) ||
        visitors_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      if (!attend(deadline)) return chip::RunResult::kBusy;
    }
    unsigned actor = 0;
    ModelTime time = times_[0];
    for (unsigned e = 1; e < kSequencers; ++e) {
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
      deadlocked_.store(in_execution_ && !halted_by_debugger(), std::memory_order_release);
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
      Sequencer& s = sequencers_[std::min<unsigned>(actor, NEURON_ENGINE_SP)];
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

void ExecutionGroup::wake(bool event, unsigned index, ModelTime now) {
  unsigned mask = event ? event_waiters_[index] : semaphore_waiters_[index];
  for (; mask != 0; mask &= mask - 1) {
    Sequencer& s = sequencers_[static_cast<unsigned>(std::countr_zero(mask))];
    if (s.state != NEURON_STATE_WAITING || s.issue_at != kNever || s.current == nullptr) continue;
    if (!waits_hold(s, s.current->decoded)) continue;
    s.issue_at = std::max(now + kSemaphoreLatency, s.wait_since);
    schedule(s);
    set_runnable();
  }
}

// At quiescence nothing is in flight, so that all times can start again from 0.
void ExecutionGroup::reset_time() {
  if (strict_) strict_->clocks().raise_floor();
  if (!time_runs_) return;
  time_runs_ = false;
  now_ = 0;
  launch_start_ = 0;
  for (Sequencer& s : sequencers_) {
    s.last_complete = s.array_free = s.load_free = 0;
    s.wait_since = 0;
  }
}

void ExecutionGroup::semaphore_changed(const chip::SemaphoreChange& change,
                                       const chip::Access& access) {
  const ModelTime now = access.time;
  if (notifications_.enabled(NEURON_NQ_SLOT_SEMAPHORE)) {
    chip::Notification entry;
    entry.kind = NEURON_NK_SEMAPHORE;
    entry.time = now;
    entry.info = {change.index | (change.event ? 256u : 0u), change.after, change.before};
    notifications_.post(NEURON_NQ_SLOT_SEMAPHORE, entry);
  }
  if (strict_) note_semaphore(change, access);
  wake(change.event, change.index, now);
}

void ExecutionGroup::semaphore_refused(neuron_fault fault, const chip::SemaphoreChange& change,
                                       const chip::Access& access) {
  notifications_.post_error(
      fault, access, {change.index | (change.event ? 256u : 0u), change.before, change.operand});
  // A refused update of a running execution is as fatal as one by an instruction.
  if (inside() && access.engine < kSequencers) {
    Sequencer& s = sequencers_[access.engine];
    if (s.active()) {
      Fault f = make_fault(fault, change.index | (change.event ? 256u : 0u), change.before);
      f.detail = change.operand;
      raise(s, f, s.pc, 0, 0, access.time);
      schedule(s);
    }
  }
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
  DmaActor& actor = actors_[engine];
  const uint8_t owner = access.core == core_ && access.engine < kSequencers
                            ? access.engine
                            : static_cast<uint8_t>(NEURON_ENGINE_SP);
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
  if (!actor.busy) schedule_dma(engine, access.time);
  set_runnable();
}

void ExecutionGroup::deactivate_dma(unsigned engine, unsigned queue, ModelTime now) {
  DmaActor& actor = actors_[engine];
  actor.active &= ~(1u << queue);
  const unsigned owner = actor.owner[queue];
  if (--dma_in_flight_[owner] != 0 || (dma_waiters_ >> owner & 1) == 0) return;
  dma_waiters_ &= static_cast<uint8_t>(~(1u << owner));
  Sequencer& s = sequencers_[owner];
  if (s.state != NEURON_STATE_WAITING || !s.dma_wait) return;
  s.issue_at = now;
  schedule(s);
}

// Takes the next run into service, or sets the time at which a queue becomes ready.
void ExecutionGroup::schedule_dma(unsigned engine, ModelTime now) {
  DmaActor& actor = actors_[engine];
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
    next = actor.end;
    break;
  }
  times_[kSequencers + engine] = next;
  if (next == kNever) {
    dma_times_ &= ~(1u << engine);
  } else {
    dma_times_ |= 1u << engine;
  }
}

void ExecutionGroup::step_dma(unsigned engine, ModelTime now) {
  DmaActor& actor = actors_[engine];
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
  schedule_dma(engine, now);
}

void ExecutionGroup::dma_faulted(const chip::DmaFault& fault, const chip::Access& access) {
  if (!inside()) return;  // a host doorbell: its error is notified, nobody's program is concerned
  core_faults_ |= 1u << 8;
  const unsigned engine = fault.engine - core_ * kDmaEngines;
  if (engine >= kDmaEngines || fault.queue >= NEURON_DMA_QUEUES) return;
  DmaActor& actor = actors_[engine];
  Sequencer& s = sequencers_[actor.owner[fault.queue]];
  if (s.state == NEURON_STATE_FAULT || s.state == NEURON_STATE_IDLE) return;
  Fault f = make_fault(fault.code, fault.address, fault.engine << 8 | fault.queue);
  f.notified = true;
  raise(s, f, actor.owner_pc[fault.queue], actor.owner_debug[fault.queue],
        actor.owner_opcode[fault.queue], access.time);
  schedule(s);
}

void ExecutionGroup::reset() {
  if (inside()) return reset_locked();
  if (!lock_as_visitor()) return;
  drain_mail();
  reset_locked();
  run_lock_.unlock();
  settle();
}

void ExecutionGroup::reset_locked() {
  for (unsigned e = 0; e < kSequencers; ++e) {
    sequencers_[e].reset(e);
    units_[e].accumulator.fill(0.0f);
    units_[e].random_position = 0;
    units_[e].random_numbers = {};
    units_[e].table.clear();
  }
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
  memory_.fill(fill_);  // FILL itself survives, or it could never take effect
  if (strict_) strict_->forget();
  deadlocked_.store(false, std::memory_order_relaxed);
  runnable_.store(false, std::memory_order_release);  // pairs with runnable()
}

}  // namespace neuron::core
