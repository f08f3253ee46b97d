// SPDX-License-Identifier: Apache-2.0
// The gate between an execution group and the host's threads: one thread at a time holds the core.
//
// Concepts: the holder of the run lock is the only thread that touches the core's state. The
// *runner* holds it while it runs the group. Other threads never wait to write: a thread that finds
// the core held leaves its words in the mailbox, and the holder applies them. A thread that reads
// registers is a *visitor*: the runner lets one visitor in between two events. A runner of another
// core that reads registers here lends out its own core meanwhile, so two cores can read each
// other. A runner whose group only another group can wake is a *sleeper*: it sleeps until a write
// arrives.
// Callers: any thread. Borrows the GuardedCore, which outlives it. Fails: enter() and read() give
// false when the runner has not paused for kVisitorPatience, and enter() also as soon as nobody
// waits any more for what the visitor does.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_HOST_GATE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_HOST_GATE_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "driver/emulator/chip/core.h"
#include "driver/emulator/neuroncore/group/run_lock.h"
#include "driver/emulator/neuroncore/group/scheduler.h"

namespace neuron::chip {
class ChipFaults;
}

namespace neuron::core {

// What a thread leaves that finds the core held: a word, one word of a longer write, a doorbell
// (`offset` is DMA engine << 8 | queue), or, for strict mode, that `value` bytes were accessed.
enum class MailKind : uint8_t { kWord, kBurst, kDoorbell, kMemoryRead, kMemoryWrite };
// Value of a doorbell's mail: the host has reset the queue under the program that uses it.
inline constexpr uint32_t kQueueStopped = 1;
struct Mail {
  uint64_t offset = 0;
  uint32_t value = 0;
  MailKind kind = MailKind::kWord;
  chip::Access access;
};

// The core behind a gate. The gate calls these as the holder of the run lock.
class GuardedCore {
 public:
  // `foreign`: the word comes from outside the running group.
  virtual void apply(const Mail& mail, bool foreign) = 0;
  virtual bool read_words(uint64_t offset, std::span<std::byte> out) = 0;
  // A sequencer waits for what only another group can do.
  virtual bool awaits_peers() const = 0;
  // The core was halted: although it may be runnable, nothing happens until its reset.
  virtual bool rests() const = 0;
  // The holder is about to give the core away, or to wait for another one: what it has kept back
  // for itself has to be seen now.
  virtual void pauses() = 0;
  // Runs events until the group is quiescent or the deadline passes. kBusy: attend() was false.
  virtual chip::RunResult run_events(std::chrono::steady_clock::time_point deadline) = 0;

 protected:
  ~GuardedCore() = default;
};

class HostGate {
 public:
  // `listener` may be null.
  HostGate(GuardedCore& guarded, unsigned core, const Scheduler& scheduler,
           const chip::ChipFaults& injected, chip::RunnableListener* listener);

  // This thread runs the group.
  bool inside() const { return running_gate() == this; }

  // --- for the runner ---
  // Runs the group in this thread; see chip::Core::run.
  chip::RunResult run(std::chrono::steady_clock::time_point deadline, bool patient);
  // Another thread has left mail, or waits to be let in. Relaxed loads are enough to see that soon;
  // what the runner reads then is under a mutex.
  bool wants_attention() const {
    return mail_waiting_.load(std::memory_order_relaxed) ||
           visitors_.load(std::memory_order_relaxed) != 0;
  }
  // Between two events. False: a visitor was let in, and the lock did not come back in time.
  bool attend(std::chrono::steady_clock::time_point deadline);

  // --- for threads that do not run the group ---
  // Words that `mail_at(n)` gives for n < count: applied at once if nobody holds the core, else
  // left to the holder.
  template <class MailAt>
  void deliver(size_t count, const MailAt& mail_at);
  void deliver(const Mail& mail) {
    deliver(1, [&](size_t) -> const Mail& { return mail; });
  }
  // Control registers. Any thread, the runner included.
  bool read(uint64_t offset, std::span<std::byte> out);
  // Waits for the end of the runner's event and holds the core until leave(). A visit for somebody
  // who has gone away is given up, unless it has to be made in any case.
  enum class Visit : uint8_t { kForSomebody, kInAnyCase };
  bool enter(Visit visit = Visit::kForSomebody);
  bool try_enter() { return run_lock_.try_lock(); }
  void leave();
  // By the holder: applies what waits in the mailbox.
  void drain_mail();
  // By the holder: sleepers look again at what the core waits for.
  void wake_sleepers();
  // A runner that sleeps, or is about to, looks again. Any thread.
  void disturb() { wake_runner(); }

 private:
  static constexpr std::chrono::seconds kVisitorPatience{30};
  // Words from outside that may wait for the runner; a reset among them takes a millisecond.
  static constexpr size_t kMailRoom = 256;

  static HostGate*& running_gate();  // of this thread, or null
  bool read_and_unlock(uint64_t offset, std::span<std::byte> out);
  bool read_outside(uint64_t offset, std::span<std::byte> out);
  bool read_between_groups(HostGate& reader, uint64_t offset, std::span<std::byte> out);
  void begin_visit() { visitors_.fetch_add(1, std::memory_order_relaxed); }
  void end_visit();
  void lend(bool lent);
  void settle();
  // By the holder.
  void release() {
    guarded_.pauses();
    run_lock_.unlock();
  }
  bool wait_for_peers(uint32_t word, std::chrono::steady_clock::time_point deadline);
  void wake_runner();
  void tell_runnable(bool quiet);
  // A sleeper is there, and what was written leaves it nothing to do but to sleep on.
  bool stays_quiet() const {
    return sleepers_.load() != 0 && !scheduler_.is_runnable() && guarded_.awaits_peers();
  }

  GuardedCore& guarded_;
  const unsigned core_;
  const Scheduler& scheduler_;
  const chip::ChipFaults& injected_;
  chip::RunnableListener* const listener_;

  RunLock run_lock_;
  std::atomic<bool> mail_waiting_ = false;
  std::atomic<uint32_t> visitors_ = 0;
  std::atomic<uint32_t> visits_ = 0;  // that have ended
  std::mutex mail_mutex_;
  std::vector<Mail> mail_, mail_taken_;  // mail_: under mail_mutex_; mail_taken_: the holder's
  // Sleepers, those of them that are in the kernel, and the word they sleep on.
  std::atomic<uint32_t> sleepers_ = 0;
  std::atomic<uint32_t> asleep_ = 0;
  std::atomic<uint32_t> wake_word_ = 0;
  // While the runner waits inside an event for a register of another core, other threads may read
  // its own registers under lend_mutex_.
  std::mutex lend_mutex_;
  bool lent_ = false;
};

template <class MailAt>
void HostGate::deliver(size_t count, const MailAt& mail_at) {
  const bool held = run_lock_.try_lock();
  bool quiet = false;
  if (held) {
    drain_mail();
    for (size_t n = 0; n < count; ++n) guarded_.apply(mail_at(n), true);
    quiet = stays_quiet();
    // Whoever runs the group next, and will be told to below, posts what this has recorded.
    scheduler_.is_runnable() ? run_lock_.unlock() : release();
  } else {
    bool full = false;
    {
      const std::lock_guard guard(mail_mutex_);
      for (size_t n = 0; n < count; ++n) mail_.push_back(mail_at(n));
      // Sequentially consistent, like the load in settle(): either the holder of the run lock sees
      // the mail after it has unlocked, or this thread gets the lock in settle() below.
      mail_waiting_.store(true);
      full = mail_.size() > kMailRoom;
    }
    // As posted writes press back when they come faster than they are taken. A runner of another
    // group does not wait here: two groups could wait for each other.
    if (full && running_gate() == nullptr && enter()) release();
  }
  settle();
  // If another thread held the lock, that thread takes the mail, and the group on.
  if (held) tell_runnable(quiet);
}

}  // namespace neuron::core

#endif
