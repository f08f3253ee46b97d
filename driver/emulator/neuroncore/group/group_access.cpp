// SPDX-License-Identifier: Apache-2.0
// Accesses to the core window, and how those from other threads meet a running group.
//
// Memory is memory. Semaphores are read without a lock. Everything that can wake a sequencer is a
// write of words, and is applied by whoever holds run_lock_: the accessing thread if nobody runs,
// else the runner, who finds it in the mailbox. So a write never waits. A read of registers waits
// for the end of the runner's event; a thread that runs another core lends out its own registers
// meanwhile, so that two cores can read each other.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {
namespace {

constexpr unsigned kHandOverSpins = 100'000;

bool is_sbuf(uint64_t offset) { return offset < NEURON_CORE_SBUF_SIZE; }
bool is_psum(uint64_t offset) {
  return offset >= NEURON_CORE_PSUM && offset < NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE;
}

}  // namespace

int ExecutionGroup::semaphores_at(uint64_t offset, uint64_t& inside) const {
  inside = offset - NEURON_CORE_SEMAPHORES;
  if (inside < NEURON_SEM_BLOCK_SIZE) return 0;
  const uint64_t k = (offset - chip::kCcWindows) / chip::kCcWindowBytes;
  inside = (offset - chip::kCcWindows) % chip::kCcWindowBytes - NEURON_CC_SEMAPHORES;
  if (offset < chip::kCcWindows || k >= cc_count_ || inside >= NEURON_SEM_BLOCK_SIZE) return -1;
  return static_cast<int>(1 + k);
}

std::byte* ExecutionGroup::direct(uint64_t offset, size_t length) {
  // In strict mode accesses from outside have to go through read and write.
  if (strict_ && !inside()) return nullptr;
  return is_sbuf(offset) ? memory_.sbuf_at(offset, length) : nullptr;
}

bool ExecutionGroup::read(uint64_t offset, std::span<std::byte> out, const chip::Access& access) {
  if (is_sbuf(offset) || is_psum(offset)) {
    if (is_psum(offset) && (offset % 4 != 0 || out.size() % 4 != 0)) return false;
    const std::byte* from = is_sbuf(offset)
                                ? memory_.sbuf_at(offset, out.size())
                                : memory_.psum_at(offset - NEURON_CORE_PSUM, out.size());
    if (from == nullptr) return false;
    std::memcpy(out.data(), from, out.size());
    if (strict_) note_access(offset, out.size(), false, access);
    return true;
  }
  uint64_t at = 0;
  if (const int block = semaphores_at(offset, at); block >= 0) {
    return (block == 0 ? semaphores_ : *cc_[static_cast<unsigned>(block) - 1].semaphores)
        .read(at, out, access);
  }
  if (offset % 4 != 0 || out.size() % 4 != 0 || out.empty()) return false;
  ExecutionGroup* const running = running_group();
  if (running == this) return read_words(offset, out);
  return running == nullptr ? read_outside(offset, out)
                            : read_between_groups(*running, offset, out);
}

bool ExecutionGroup::read_outside(uint64_t offset, std::span<std::byte> out) {
  return lock_as_visitor() && read_and_unlock(offset, out);
}

// A read does not overtake writes: who wrote to the core before sees what that did.
bool ExecutionGroup::read_and_unlock(uint64_t offset, std::span<std::byte> out) {
  const bool applied = mail_waiting_.load();
  drain_mail();
  const bool ok = read_words(offset, out);
  const bool quiet = stays_quiet();
  run_lock_.unlock();
  settle();
  if (applied) tell_runnable(quiet);
  return ok;
}

// The runner lets a visitor in after its event; the bound covers a host that is stopped meanwhile.
bool ExecutionGroup::lock_as_visitor() {
  if (run_lock_.try_lock()) return true;
  visitors_.fetch_add(1, std::memory_order_relaxed);
  const bool locked = run_lock_.try_lock_for(kVisitorPatience);
  visits_.fetch_add(1, std::memory_order_relaxed);
  visitors_.fetch_sub(1, std::memory_order_relaxed);
  if (!locked) settle();
  return locked;
}

void ExecutionGroup::lend(bool lent) {
  const std::lock_guard guard(lend_mutex_);
  lent_ = lent;
}

// By the thread that runs `reader`, in the middle of one of its events.
bool ExecutionGroup::read_between_groups(ExecutionGroup& reader, uint64_t offset,
                                         std::span<std::byte> out) {
  if (run_lock_.try_lock_first()) return read_and_unlock(offset, out);
  reader.lend(true);
  visitors_.fetch_add(1, std::memory_order_relaxed);
  const auto deadline = std::chrono::steady_clock::now() + kVisitorPatience;
  bool done = false;
  bool ok = false;
  while (!done && std::chrono::steady_clock::now() < deadline) {
    if (run_lock_.try_lock_first()) {
      ok = read_and_unlock(offset, out);
      done = true;
      break;
    }
    {
      const std::lock_guard guard(lend_mutex_);
      if (lent_) {
        ok = read_words(offset, out);
        done = true;
      }
    }
    if (!done) sched_yield();
  }
  visits_.fetch_add(1, std::memory_order_relaxed);
  visitors_.fetch_sub(1, std::memory_order_relaxed);
  reader.lend(false);
  settle();
  return ok;
}

bool ExecutionGroup::read_words(uint64_t offset, std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += 4) {
    if (!is_register(offset + at)) {
      if (out.size() == 4) return false;
      std::memset(out.data() + at, 0xFF, 4);
      continue;
    }
    const uint32_t value = read_register(offset + at);
    std::memcpy(out.data() + at, &value, 4);
  }
  return true;
}

bool ExecutionGroup::mapped(uint64_t offset) const {
  uint64_t at = 0;
  if (semaphores_at(offset, at) < 0) return is_register(offset);
  neuron_update_operation operation;
  unsigned index;
  uint32_t operand;
  return chip::SemaphoreBlock::decode_write(at, 1, operation, index, operand);
}

bool ExecutionGroup::write(uint64_t offset, std::span<const std::byte> in,
                           const chip::Access& access) {
  if (is_sbuf(offset)) {
    std::byte* to = memory_.sbuf_at(offset, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    if (strict_) note_access(offset, in.size(), true, access);
    return true;
  }
  if (offset % 4 != 0 || in.size() % 4 != 0 || in.empty()) return false;
  if (is_psum(offset)) {
    const uint64_t at = offset - NEURON_CORE_PSUM;
    std::byte* to = memory_.psum_at(at, in.size());
    if (to == nullptr) return false;
    std::memcpy(to, in.data(), in.size());
    if (strict_) note_access(offset, in.size(), true, access);
    // A write from outside a running group is unordered with it; its marks are left alone then.
    if (inside() || run_lock_.try_lock()) {
      memory_.mark_pe(static_cast<unsigned>(at / NEURON_PSUM_PARTITION_STRIDE),
                      at % NEURON_PSUM_PARTITION_STRIDE, in.size(), false);
      if (!inside()) {
        run_lock_.unlock();
        settle();
      }
    }
    return true;
  }

  const size_t words = in.size() / 4;
  const bool burst = words > 1;
  const uint64_t block = offset & ~uint64_t{0xFFFF};
  if (offset < NEURON_CORE_CONTROL || ((offset + in.size() - 1) & ~uint64_t{0xFFFF}) != block) {
    return false;
  }
  if (!burst && !mapped(offset)) return false;
  const MailKind kind = burst ? MailKind::kBurst : MailKind::kWord;
  const auto mail_at = [&](size_t w) {
    uint32_t value;
    std::memcpy(&value, in.data() + w * 4, 4);
    return Mail{offset + w * 4, value, kind, access};
  };
  if (inside()) {
    for (size_t w = 0; w < words; ++w) apply(mail_at(w), false);
  } else {
    deliver(words, mail_at);
  }
  return true;
}

void ExecutionGroup::ring_from_outside(const Mail& doorbell) {
  deliver(1, [&](size_t) -> const Mail& { return doorbell; });
}

// One word or doorbell, by who holds the core.
void ExecutionGroup::apply(const Mail& mail, bool foreign) {
  if (mail.kind >= MailKind::kMemoryRead) return note_mail(mail);
  chip::Access access = mail.access;
  // Another group says when. The host's writes, and those of DMA that runs for it, have no time.
  const bool remote = foreign && access.origin != chip::Origin::kHost && access.time != 0;
  if (foreign) {
    begin_external();
    if (!remote) access.time = now_;
  }
  if (mail.kind == MailKind::kDoorbell) {
    if (remote) access.time = now_;
    activate_dma(static_cast<unsigned>(mail.offset >> 8), mail.offset & 0xFF, access);
    return;
  }
  uint64_t at = 0;
  if (const int block = semaphores_at(mail.offset, at); block >= 0) {
    write_semaphore(static_cast<unsigned>(block), at, mail.value, access, foreign, remote);
  } else if (is_register(mail.offset)) {
    if (remote) access.time = now_;
    write_register(mail.offset, mail.value, mail.kind == MailKind::kBurst, access.time);
  }
}

// A host or foreign access that finds the core quiet starts a new count of time.
void ExecutionGroup::begin_external() {
  if (in_execution_ || runnable_.load(std::memory_order_relaxed) || awaits_peers()) return;
  reset_time();
}

void ExecutionGroup::begin_launch() {
  if (strict_) strict_->clocks().raise_floor();
  for (Sequencer& s : sequencers_) {
    s.busy = s.waited = s.traced_wait = 0;
    s.launch_retired = s.retired;
  }
}

// Whoever holds the core is the only writer of its semaphores.
void ExecutionGroup::change_semaphore(unsigned block, uint64_t at, uint32_t value,
                                      const chip::Access& access, bool remote) {
  neuron_update_operation operation = NEURON_UPDATE_NONE;
  unsigned index = 0;
  uint32_t operand = 0;
  if (!chip::SemaphoreBlock::decode_write(at, value, operation, index, operand)) return;
  chip::SemaphoreChange change;
  chip::SemaphoreBlock& semaphores = block == 0 ? semaphores_ : *cc_[block - 1].semaphores;
  const neuron_fault fault = semaphores.change_exclusive(operation, index, operand, &change);
  if (fault != NEURON_FAULT_NONE) return refused(block, fault, change, access);
  arrivals_[block].note(operation, ArrivalTimes::cell_of(change.event, index), operand,
                        change.before, remote, access.time);
  changed(block, change, access);
}

void ExecutionGroup::write_semaphore(unsigned block, uint64_t at, uint32_t value,
                                     const chip::Access& access, bool foreign, bool remote) {
  const bool launch = block == 0 && at == NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH;
  if (!launch || !foreign || value == 0) {
    return change_semaphore(block, at, value, access, remote);
  }
  if (in_execution_ || runnable_.load(std::memory_order_relaxed)) {
    held_launches_ += std::min(value, NEURON_SEMAPHORE_MAX - held_launches_);
    return;
  }
  begin_launch();
  chip::Access host = access;
  host.time = now_;
  change_semaphore(block, at, 1, host, false);
  held_launches_ += std::min(value - 1, NEURON_SEMAPHORE_MAX - held_launches_);
  if (held_launches_ != 0) set_runnable();
}

// The runner found the group quiet with launches left.
void ExecutionGroup::release_held_launch() {
  --held_launches_;
  reset_time();
  begin_launch();
  change_semaphore(0, NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH, 1,
                   {chip::Origin::kHost, static_cast<uint8_t>(core_), NEURON_ENGINE_HOST, 0},
                   false);
}

// Words and doorbells from outside: applied at once if nobody runs, else left to the runner.
template <class MailAt>
void ExecutionGroup::deliver(size_t count, const MailAt& mail_at) {
  const bool mine = run_lock_.try_lock();
  bool quiet = false;
  if (mine) {
    drain_mail();
    for (size_t n = 0; n < count; ++n) apply(mail_at(n), true);
    quiet = stays_quiet();
    run_lock_.unlock();
  } else {
    bool full = false;
    {
      const std::lock_guard guard(mail_mutex_);
      for (size_t n = 0; n < count; ++n) mail_.push_back(mail_at(n));
      // Sequentially consistent, like the load in settle(): either the holder of run_lock_ sees the
      // mail after it has unlocked, or this thread gets the lock below.
      mail_waiting_.store(true);
      full = mail_.size() > kMailRoom;
    }
    // As posted writes press back when they come faster than they are taken. A group that runs
    // waits for no other: two could wait for each other.
    if (full && running_group() == nullptr && lock_as_visitor()) run_lock_.unlock();
  }
  settle();
  // Who holds the lock takes the mail, and the group on.
  if (mine) tell_runnable(quiet);
}

// To a runner that sleeps until peers write, else to whoever has workers. `quiet`: what was written
// leaves it nothing to do but to wait.
void ExecutionGroup::tell_runnable(bool quiet) {
  if (sleepers_.load() != 0) {
    if (!quiet) wake_runner();
  } else if (listener_ != nullptr && runnable()) {
    listener_->core_runnable(core_);
  }
}

void ExecutionGroup::drain_mail() {
  if (!mail_waiting_.load()) return;
  {
    std::lock_guard lock(mail_mutex_);
    mail_taken_.swap(mail_);
    mail_waiting_.store(false);
  }
  for (const Mail& mail : mail_taken_) apply(mail, true);
  mail_taken_.clear();
}

// After unlocking, or waiting in vain: mail that came while the lock was held, or while somebody
// waited for it, is still somebody's to apply. Whoever left it there found the core quiet and has
// told no worker: a launch that a visitor applies would never run otherwise.
void ExecutionGroup::settle() {
  bool applied = false;
  bool quiet = false;
  while (mail_waiting_.load() && run_lock_.try_lock()) {
    drain_mail();
    quiet = stays_quiet();
    run_lock_.unlock();
    applied = true;
  }
  if (applied) tell_runnable(quiet);
}

// The runner, between two events. False: it has let somebody in and not got the lock back in time.
bool ExecutionGroup::attend(std::chrono::steady_clock::time_point deadline) {
  drain_mail();
  if (visitors_.load(std::memory_order_relaxed) == 0) return true;
  // One visitor between two events: those who keep coming do not stop the program.
  const uint32_t before = visits_.load(std::memory_order_relaxed);
  run_lock_.unlock();
  for (unsigned spin = 0; spin < kHandOverSpins; ++spin) {
    if (visitors_.load() == 0 || visits_.load(std::memory_order_relaxed) != before) break;
    sched_yield();
  }
  if (run_lock_.try_lock_until(deadline)) return true;
  settle();
  return false;
}

}  // namespace neuron::core
