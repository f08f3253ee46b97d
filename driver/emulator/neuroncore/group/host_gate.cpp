// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/host_gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "driver/base/abandonment.h"
#include "driver/base/backoff.h"
#include "driver/emulator/chip/chip_faults.h"

namespace neuron::core {
namespace {

// How often the runner yields for a visitor to take the lock.
constexpr unsigned kHandOverYields = 100'000;
// How long a visitor waits until it looks whether it is still waited for.
constexpr std::chrono::milliseconds kVisitorLooks{20};

}  // namespace

HostGate::HostGate(GuardedCore& guarded, unsigned core, const Scheduler& scheduler,
                   const chip::ChipFaults& injected, chip::RunnableListener* listener)
    : guarded_(guarded),
      core_(core),
      scheduler_(scheduler),
      injected_(injected),
      listener_(listener) {
  mail_.reserve(64);
  mail_taken_.reserve(64);
}

HostGate*& HostGate::running_gate() {
  static thread_local HostGate* gate = nullptr;
  return gate;
}

chip::RunResult HostGate::run(std::chrono::steady_clock::time_point deadline, bool patient) {
  for (;;) {  // bounded: by `deadline`
    if (!run_lock_.try_lock_until(deadline)) {
      settle();  // threads that were refused for this waiter have left it their mail
      return chip::RunResult::kBusy;
    }
    drain_mail();
    HostGate* const outer = std::exchange(running_gate(), this);
    const chip::RunResult result = guarded_.run_events(deadline);
    running_gate() = outer;
    if (result == chip::RunResult::kBusy) return result;  // a visitor has the lock
    const bool sleeps = patient && result == chip::RunResult::kQuiescent &&
                        guarded_.awaits_peers() && !injected_.off();
    // Before unlocking: a thread that writes here and finds a sleeper leaves the group to it.
    const uint32_t word = wake_word_.load();
    if (sleeps) sleepers_.fetch_add(1);
    release();
    settle();
    if (sleeps) {
      const bool woken = wait_for_peers(word, deadline);
      sleepers_.fetch_sub(1);
      if (woken) continue;
      if (scheduler_.is_runnable()) tell_runnable(false);  // a worker runs what came meanwhile
      return chip::RunResult::kDeadline;
    }
    if (result == chip::RunResult::kDeadline || guarded_.rests()) return result;
    if (scheduler_.is_runnable()) continue;
    wake_sleepers();  // other threads that wait for this group
    return result;
  }
}

// Counted among sleepers_ since the group was quiescent, when wake_word_ was `word`. False: the
// deadline has passed.
bool HostGate::wait_for_peers(uint32_t word, std::chrono::steady_clock::time_point deadline) {
  // Messages of peers that run at this moment come within microseconds; giving the host's core away
  // to them is quicker than sleeping.
  constexpr unsigned kYields = 16;
  const auto woken = [&] {
    return wake_word_.load() != word || scheduler_.is_runnable() || mail_waiting_.load();
  };
  for (unsigned n = 0; n < kYields; ++n) {
    if (woken()) return true;
    base::yield_processor();
  }
  // Sequentially consistent: either wake_runner() sees that a thread is asleep, or this thread sees
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
void HostGate::wake_runner() {
  wake_word_.fetch_add(1);
  if (asleep_.load() == 0) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&wake_word_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

void HostGate::wake_sleepers() {
  if (sleepers_.load() != 0) wake_runner();
}

// Tells a sleeper, else the workers. `quiet`: what was written leaves a sleeper nothing to do.
void HostGate::tell_runnable(bool quiet) {
  if (sleepers_.load() != 0) {
    if (!quiet) wake_runner();
  } else if (listener_ != nullptr && scheduler_.is_runnable()) {
    listener_->core_runnable(core_);
  }
}

bool HostGate::read(uint64_t offset, std::span<std::byte> out) {
  HostGate* const running = running_gate();
  if (running == this) return guarded_.read_words(offset, out);
  return running == nullptr ? read_outside(offset, out)
                            : read_between_groups(*running, offset, out);
}

bool HostGate::read_outside(uint64_t offset, std::span<std::byte> out) {
  return enter() && read_and_unlock(offset, out);
}

// A read does not overtake writes: a thread that wrote to the core before sees what that did.
bool HostGate::read_and_unlock(uint64_t offset, std::span<std::byte> out) {
  const bool applied = mail_waiting_.load();
  drain_mail();
  const bool ok = guarded_.read_words(offset, out);
  const bool quiet = stays_quiet();
  release();
  settle();
  if (applied) tell_runnable(quiet);
  return ok;
}

// By the thread that runs `reader`, in the middle of one of its events.
bool HostGate::read_between_groups(HostGate& reader, uint64_t offset, std::span<std::byte> out) {
  if (run_lock_.try_lock_first()) return read_and_unlock(offset, out);
  reader.guarded_.pauses();
  reader.lend(true);
  begin_visit();
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
        ok = guarded_.read_words(offset, out);
        done = true;
      }
    }
    if (!done) base::yield_processor();
  }
  end_visit();
  reader.lend(false);
  settle();
  return ok;
}

void HostGate::lend(bool lent) {
  const std::lock_guard guard(lend_mutex_);
  lent_ = lent;
}

void HostGate::end_visit() {
  visits_.fetch_add(1, std::memory_order_relaxed);
  visitors_.fetch_sub(1, std::memory_order_relaxed);
}

// The runner lets a visitor in after its event; the bound covers a host that is stopped meanwhile.
bool HostGate::enter(Visit visit) {
  if (run_lock_.try_lock()) return true;
  begin_visit();
  const auto deadline = std::chrono::steady_clock::now() + kVisitorPatience;
  bool locked = false;
  for (auto now = deadline - kVisitorPatience; !locked && now < deadline;
       now = std::chrono::steady_clock::now()) {
    if (visit == Visit::kForSomebody && base::Abandonment::seen()) break;
    locked = run_lock_.try_lock_until(std::min(deadline, now + kVisitorLooks));
  }
  end_visit();
  if (!locked) settle();
  return locked;
}

void HostGate::leave() {
  release();
  settle();
}

void HostGate::drain_mail() {
  if (!mail_waiting_.load()) return;
  {
    std::lock_guard lock(mail_mutex_);
    mail_taken_.swap(mail_);
    mail_waiting_.store(false);
  }
  for (const Mail& mail : mail_taken_) guarded_.apply(mail, true);
  mail_taken_.clear();
}

// After unlocking, or after waiting for the lock in vain: applies mail that came while the lock was
// held or waited for, and tells a worker about it. The thread that left the mail has woken no
// worker, so a launch in it would never run otherwise.
void HostGate::settle() {
  bool applied = false;
  bool quiet = false;
  while (mail_waiting_.load() && run_lock_.try_lock()) {
    drain_mail();
    quiet = stays_quiet();
    release();
    applied = true;
  }
  if (applied) tell_runnable(quiet);
}

bool HostGate::attend(std::chrono::steady_clock::time_point deadline) {
  drain_mail();
  if (visitors_.load(std::memory_order_relaxed) == 0) return true;
  // One visitor between two events: visitors that keep coming do not stop the program.
  const uint32_t before = visits_.load(std::memory_order_relaxed);
  release();
  for (unsigned n = 0; n < kHandOverYields; ++n) {
    if (visitors_.load() == 0 || visits_.load(std::memory_order_relaxed) != before) break;
    base::yield_processor();
  }
  if (run_lock_.try_lock_until(deadline)) return true;
  settle();
  return false;
}

}  // namespace neuron::core
