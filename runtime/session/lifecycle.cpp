// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/lifecycle.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

#include "runtime/base/environment_table.h"
#include "runtime/base/log.h"

namespace neuron::runtime {
namespace {

enum State : uint32_t { kNever, kOpen, kClosing, kClosed, kForked };

// 63:32 state, 31:0 calls that are running. One word, so that a call is either counted before the
// state changes or sees the change.
std::atomic<uint64_t> state_word{0};
// Written while no call can run, read by calls that were let in: ordered by state_word.
Session* the_session = nullptr;

// These outlive every static destructor: threads may still call while the process exits.
std::mutex& transition() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::mutex& idle_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::condition_variable& idle() {
  static auto* condition = new std::condition_variable;
  return *condition;
}

constexpr uint64_t word(State state) { return static_cast<uint64_t>(state) << 32; }
State state_of(uint64_t value) { return static_cast<State>(value >> 32); }

void set_state(State state) {
  uint64_t value = state_word.load(std::memory_order_relaxed);
  // Release: publishes the_session to the acquire in SessionUse.
  while (!state_word.compare_exchange_weak(value, word(state) | (value & 0xFFFFFFFF),
                                           std::memory_order_release)) {
  }
}

// Ends a call that was counted, whether it was let in or refused: close_session() waits for both
// kinds.
void end_call() {
  // Acquire-release: what the call did happens before the session is destroyed by close_session().
  const uint64_t before = state_word.fetch_sub(1, std::memory_order_acq_rel);
  if (state_of(before) == kClosing && (before & 0xFFFFFFFF) == 1) {
    std::lock_guard guard(idle_mutex());
    idle().notify_all();
  }
}

// The child has neither the parent's threads nor its device; it forgets the session without
// touching the parent's memory on the device.
void forget_in_child() {
  if (state_of(state_word.load(std::memory_order_relaxed)) == kNever) return;
  the_session = nullptr;
  state_word.store(word(kForked), std::memory_order_release);
  new (&transition()) std::mutex;
  new (&idle_mutex()) std::mutex;
  new (&idle()) std::condition_variable;
}

}  // namespace

Result<void> open_session(const Caller& caller) {
  std::lock_guard lock(transition());
  const State state = state_of(state_word.load(std::memory_order_acquire));
  if (state == kOpen) return {};
  (void)configure_log();  // writes the warning itself
  if (state == kForked) ndl_device_cached_fd_close_all();
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, &forget_in_child);
  // Each once: some programs initialise the runtime again and again.
  static auto* told = new std::set<std::string>;
  for (const std::string& sentence : unknown_variables(environ)) {
    if (told->insert(sentence).second && !told_by_program(LogComponent::kNrt)) {
      log_notice(LogComponent::kNrt, "{}", sentence);
    }
  }
  NEURON_TRY(configuration, read_configuration());
  auto session = Session::open(configuration, caller);
  if (!session) {
    // The next attempt reads anew where the devices are.
    ndl::release_port();
    return session.error();
  }
  the_session = session->release();
  set_state(kOpen);
  return {};
}

Result<void> close_session() {
  std::lock_guard lock(transition());
  if (state_of(state_word.load(std::memory_order_acquire)) != kOpen) return {};
  set_state(kClosing);
  {
    // Calls end by their own deadlines; the longest is an execution behind another one.
    const base::Deadline deadline = base::Deadline::after(
        std::chrono::seconds(2 * the_session->configuration().exec_timeout_s + 10));
    std::unique_lock guard(idle_mutex());
    while ((state_word.load(std::memory_order_acquire) & 0xFFFFFFFF) != 0) {
      if (idle().wait_until(guard, deadline.when()) == std::cv_status::timeout &&
          (state_word.load(std::memory_order_acquire) & 0xFFFFFFFF) != 0) {
        set_state(kOpen);
        return fail(NRT_TIMEOUT,
                    "nrt_close gave up: {} calls of other threads have not returned; the runtime "
                    "stays open",
                    state_word.load(std::memory_order_relaxed) & 0xFFFFFFFF);
      }
    }
  }
  delete std::exchange(the_session, nullptr);
  set_state(kClosed);
  ndl::release_port();
  return {};
}

SessionUse::SessionUse() noexcept {
  // Acquire: pairs with the release of set_state(); the session it published is complete.
  const uint64_t before = state_word.fetch_add(1, std::memory_order_acquire);
  state_ = state_of(before);
  if (state_ == kOpen) {
    session_ = the_session;
  } else {
    session_ = nullptr;
    end_call();
  }
}

SessionUse::~SessionUse() {
  if (session_ != nullptr) end_call();
}

Error SessionUse::error() const {
  switch (state_) {
    case kNever:
      return fail(NRT_UNINITIALIZED, "the runtime is not initialised; call nrt_init first");
    case kForked:
      return fail(NRT_UNINITIALIZED,
                  "this process was forked from one that had the runtime open; devices are not "
                  "inherited: call nrt_init in the child, or fork before nrt_init");
    default:
      return fail(NRT_CLOSED, "the runtime was closed; call nrt_init to use it again");
  }
}

}  // namespace neuron::runtime
