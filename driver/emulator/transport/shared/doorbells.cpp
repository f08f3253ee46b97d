// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/doorbells.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "driver/base/backoff.h"
#include "driver/base/thread_sanitizer.h"
#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/memory_file.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"

namespace neuron::transport {
namespace {

using Clock = std::chrono::steady_clock;

// How long the thread looks for more before it sleeps.
constexpr std::chrono::microseconds kSpin{20};
// How long it runs a program before others get their turn.
constexpr std::chrono::microseconds kSlice{30};
// Passes without work before it offers the processor to others.
constexpr unsigned kBusyPasses = 32;
// Threads that look at pages at the same time, the watcher included: more than processors take time
// from each other and from clients.
constexpr unsigned kMostAwake = 4;
// How often the deputy looks. A doorbell is overdue after one to two of these: many times what a
// slice takes, and little for a neighbour who waits.
constexpr std::chrono::milliseconds kLook{2};
// Looks at which nothing has happened before it leaves off.
constexpr unsigned kCalmLooks = 64;
// Beside overdue ones: those that are awake, as many that become overdue at the same look, and the
// deputy.
constexpr size_t kOtherThreads = 2 * kMostAwake + 1;
constexpr int kSleepMs = 10'000;
// Of whoever removes a doorbell, while it is served.
constexpr base::Backoff::Steps kLooks = {256, 64, std::chrono::microseconds(50),
                                         std::chrono::milliseconds(1)};

template <typename T>
T copy_out(const T& shared) {
  T value;
  __atomic_load(&shared, &value, __ATOMIC_RELAXED);
  return value;
}

}  // namespace

std::unique_ptr<Doorbell> Doorbell::create(service::Session& session, int socket) {
  std::unique_ptr<Doorbell> made(new Doorbell(session, socket));
  made->page_file_.reset(chip::create_memory_file("neuron-doorbells"));
  made->event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->page_file_ || !made->event_ ||
      ::ftruncate(made->page_file_.get(), wire::kRingBytes) != 0 ||
      ::fcntl(made->page_file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
          0) {
    service::fail(-errno, "no shared page for a client: %s; raise the limit of open files",
                  std::strerror(errno));
    return nullptr;
  }
  void* page = ::mmap(nullptr, wire::kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      made->page_file_.get(), 0);
  if (page == MAP_FAILED) {
    service::fail(-errno, "no shared page for a client: %s", std::strerror(errno));
    return nullptr;
  }
  // All bytes are zero, which is what the atomics begin with.
  made->page_ = static_cast<wire::RingPage*>(page);
  return made;
}

Doorbell::~Doorbell() {
  if (page_ != nullptr) ::munmap(page_, wire::kRingBytes);
}

const service::Client& Doorbell::client() const { return session_.client(); }

bool Doorbell::rings() const {
  // Sequentially consistent, as in announce_sleep(): a client that did not see us asleep is seen
  // here.
  return page_->posts.load(std::memory_order_seq_cst) != posts_.load(std::memory_order_relaxed);
}

bool Doorbell::take() { return !taken_.test_and_set(std::memory_order_acquire); }

void Doorbell::serve() {
  // Pairs with the client's increment, so that the slots behind it are seen.
  posts_.store(page_->posts.load(std::memory_order_seq_cst), std::memory_order_relaxed);
  for (unsigned i = 0; i < wire::kSlots; ++i) {
    // Acquire: pairs with the client's release store, which follows the request.
    const uint32_t number = page_->slots[i].posted.load(std::memory_order_acquire);
    if (number == served_[i]) continue;
    // Else it would begin the next program when one was stopped because its process is gone.
    if (session_.abandoned()) return;
    base::take_from_other_processes();
    serve(i, number);
  }
  carry_posts();
}

void Doorbell::carry_posts() {
  // Acquire: pairs with the client's release store, which follows the entries.
  const uint32_t posted = page_->posted.load(std::memory_order_acquire);
  // A client may say that there are more than there is room for: the rest has its turn later.
  for (unsigned n = 0; n < wire::kPosts && carried_ != posted; ++n) {
    if (session_.abandoned()) return;
    base::take_from_other_processes();
    const wire::PostedWrites& entry = page_->written[carried_ % wire::kPosts];
    // Once each, before any of it is looked at: the client may change it at any time.
    const uint32_t count = copy_out(entry.count);
    unsigned long long addresses[wire::PostedWrites::kMost];
    uint32_t values[wire::PostedWrites::kMost];
    for (uint32_t i = 0; i < wire::PostedWrites::kMost; ++i) {
      addresses[i] = copy_out(entry.writes[i].address);
      values[i] = copy_out(entry.writes[i].value);
    }
    int result = -EINVAL;
    if (count != 0 && count <= wire::PostedWrites::kMost) {
      result = session_.write_registers(addresses, values, count);  // throws nothing
    }
    if (result != 0) {
      __atomic_store_n(&page_->refused_last, carried_, __ATOMIC_RELAXED);
      __atomic_store_n(&page_->result, result, __ATOMIC_RELAXED);
      // Release: the client reads both once it sees the count.
      page_->refused.store(++refused_, std::memory_order_release);
    }
    base::hand_to_other_processes();
    // Release: the client may fill the entry anew.
    page_->carried.store(++carried_, std::memory_order_release);
  }
}

void Doorbell::serve(unsigned index, uint32_t number) {
  wire::Slot& slot = page_->slots[index];
  // Once each, before any of it is looked at: the client may change it at any time.
  const uint32_t flags = copy_out(slot.flags);
  const uint64_t offset = copy_out(slot.offset);
  uint32_t value = copy_out(slot.value);
  served_[index] = number;
  const bool write = (flags & wire::kFlagWrite) != 0;
  const bool run = write && (flags & wire::kFlagInline) != 0;
  int result = -ENOMEM;
  try {
    result = write ? session_.write_register(offset, value, run)
                   : session_.read_register(offset, &value);
  } catch (const std::bad_alloc&) {
  } catch (const std::exception&) {
    result = -EIO;
  }
  __atomic_store_n(&slot.result, result, __ATOMIC_RELAXED);
  __atomic_store_n(&slot.answer, value, __ATOMIC_RELAXED);
  base::hand_to_other_processes();
  // Sequentially consistent, as is the client's store of `asleep` and its second look at
  // `answered`: either it sees the answer or we see that it sleeps.
  slot.answered.store(number, std::memory_order_seq_cst);
  if (slot.asleep.load(std::memory_order_seq_cst) != 0) {
    auto wake = wire::message<wire::Header>(wire::Kind::kWake, index);
    const iovec part = {&wake, sizeof(wake)};
    // Without patience: a client that does not read its messages waits until it does.
    (void)base::send_packet(socket_, {&part, 1}, {}, 0);
  }
  if (!run || result != 0) return;
  try {
    service::Device& device = session_.device();
    device.chip().run_slice(device.core_of_register(offset), Clock::now() + kSlice);
  } catch (const std::exception&) {
    // The client's wait goes on with it, and meets the same again.
  }
}

void Doorbell::announce_sleep(bool asleep) {
  // Sequentially consistent: pairs with the client, which posts before it looks here.
  page_->daemon_sleeps.store(asleep ? 1 : 0, std::memory_order_seq_cst);
}

void Doorbell::drain_event() {
  uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof(count));
}

std::unique_ptr<Doorbells> Doorbells::create() {
  std::unique_ptr<Doorbells> made(new Doorbells);
  made->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  made->stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event = {EPOLLIN, {nullptr}};
  if (!made->epoll_ || !made->stop_ ||
      ::epoll_ctl(made->epoll_.get(), EPOLL_CTL_ADD, made->stop_.get(), &event) != 0) {
    service::fail(-errno, "doorbells of clients cannot be watched: %s", std::strerror(errno));
    return nullptr;
  }
  const std::lock_guard lock(made->rest_mutex_);
  made->start_thread(true);
  made->start_thread(false);
  return made;
}

Doorbells::~Doorbells() {
  std::list<Thread> threads;
  {
    const std::lock_guard lock(rest_mutex_);
    stopping_.store(true);
    threads.splice(threads.end(), threads_);
  }
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  wanted_or_calm_.notify_all();
  for (Thread& thread : threads) thread.thread.join();
}

// With rest_mutex_ held. Throws std::system_error where the host gives none.
void Doorbells::start_thread(bool watches) {
  if (stopping_.load(std::memory_order_relaxed) ||
      threads_.size() >= kMostOverdue + kOtherThreads) {
    return;
  }
  Thread& made = threads_.emplace_back();
  if (watches) {
    watcher_.store(&made);
  } else {
    helping_.fetch_add(1, std::memory_order_relaxed);
  }
  try {
    made.thread = std::thread([this, &made, watches] {
      // Before it can be overdue itself: it may be the only one that rests.
      if (!watches) rest(made);
      work(made);
    });
  } catch (...) {
    if (!watches) helping_.fetch_sub(1, std::memory_order_relaxed);
    threads_.pop_back();
    throw;
  }
}

std::shared_lock<std::shared_mutex> Doorbells::share() {
  // Threads that change something are quick.
  while (waiting_.load(std::memory_order_relaxed) != 0) base::yield_processor();
  return std::shared_lock(mutex_);
}

std::unique_lock<std::shared_mutex> Doorbells::own() {
  waiting_.fetch_add(1);
  std::unique_lock lock(mutex_);
  waiting_.fetch_sub(1);
  return lock;
}

bool Doorbells::add(Doorbell& doorbell) {
  const auto lock = own();
  doorbells_.push_back(&doorbell);
  epoll_event event = {EPOLLIN, {&doorbell}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, doorbell.event(), &event) != 0) {
    doorbells_.pop_back();
    return false;
  }
  // The thread may be asleep, and has then not told this one.
  doorbell.announce_sleep(true);
  return true;
}

void Doorbells::retire(Doorbell& doorbell) {
  const auto lock = own();
  std::erase(doorbells_, &doorbell);
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, doorbell.event(), nullptr);
}

bool Doorbells::await(const Doorbell& doorbell, std::chrono::milliseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  base::Backoff backoff(kLooks);
  while (doorbell.is_taken()) {
    if (backoff.sleeps() && Clock::now() >= deadline) return false;
    backoff.wait();
  }
  return true;
}

void Doorbells::remove(Doorbell& doorbell) {
  retire(doorbell);
  while (!await(doorbell, std::chrono::milliseconds(kSleepMs))) {
  }
}

// --- of a thread that is awake ----------------------------------------------------------------

void Doorbells::work(Thread& self) {
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (spin(self)) continue;
    if (watcher_.load(std::memory_order_relaxed) == &self) {
      sleep(self);
    } else {
      rest(self);
    }
  }
}

// How many doorbells were served. One that moves because another is removed may be left out, but
// none is if this is 0.
unsigned Doorbells::pass(Thread& self) {
  unsigned busy = 0;
  auto lock = share();
  for (size_t i = 0; i < doorbells_.size(); ++i) {
    Doorbell* const doorbell = doorbells_[i];
    if (!doorbell->rings() || !may_be_served(*doorbell) || !doorbell->take()) continue;
    const bool last = i + 1 == doorbells_.size();
    lock.unlock();
    serve(self, *doorbell);
    ++busy;
    if (last) break;  // one that was added meanwhile is of the next pass
    lock = share();
  }
  return busy;
}

void Doorbells::serve(Thread& self, Doorbell& doorbell) {
  const uint64_t number = ++self.served << kNumber;
  self.doorbell.store(&doorbell, std::memory_order_relaxed);
  // Sequentially consistent, both: either the deputy sees that this thread serves, or this thread
  // sees that the deputy has left off.
  self.state.exchange(number | kServing);
  if (calm_.load()) wake_deputy();
  doorbell.serve();
  // Acquire and release: the deputy looks at the doorbell only while the state lets it.
  const uint64_t state = self.state.exchange(number, std::memory_order_acq_rel);
  if ((state & kOverdue) != 0) catch_up(self, doorbell);
  doorbell.let_go();
}

// The threads of a client that has its share of overdue ones look again when they are done.
bool Doorbells::may_be_served(const Doorbell& doorbell) {
  if (overdue_.load(std::memory_order_relaxed) == 0) return true;
  const std::lock_guard lock(shares_mutex_);
  return overdue_shares_.has_share(doorbell.client());
}

// False when there has been nothing to do for so long that the thread may sleep.
bool Doorbells::spin(Thread& self) {
  const Clock::time_point end = Clock::now() + kSpin;
  for (unsigned idle = 0; !stopping_.load(std::memory_order_relaxed);) {
    if (const unsigned busy = pass(self); busy != 0) {
      if (busy > 1) ask_for_help();
      return true;
    }
    if (++idle < kBusyPasses) {
      base::pause_processor();
    } else if (Clock::now() < end) {
      base::yield_processor();
    } else {
      return false;
    }
  }
  return false;
}

void Doorbells::ask_for_help() {
  static const unsigned most = std::clamp(std::thread::hardware_concurrency(), 1u, kMostAwake) - 1;
  if (resting_.load(std::memory_order_relaxed) == 0 ||
      helping_.load(std::memory_order_relaxed) >= most) {
    return;
  }
  {
    const std::lock_guard lock(rest_mutex_);
    if (wanted_ == 0) wanted_ = 1;
  }
  wanted_or_calm_.notify_one();
}

// --- of the watcher -----------------------------------------------------------------------------

// False if the watch is another thread's by now.
bool Doorbells::announce_sleep(const Thread& self) {
  const auto lock = share();
  if (watcher_.load(std::memory_order_relaxed) != &self) return false;
  for (Doorbell* doorbell : doorbells_) doorbell->announce_sleep(true);
  return true;
}

void Doorbells::sleep(Thread& self) {
  epoll_event events[16];
  if (!announce_sleep(self)) return;
  // What was posted before a client could know.
  const bool more = pass(self) != 0;
  const int count = more ? 0 : ::epoll_wait(epoll_.get(), events, 16, kSleepMs);
  // First the accesses that a client waits for.
  if (count > 0) (void)pass(self);
  const auto lock = share();
  // One of them has taken so long that another thread watches, and perhaps sleeps.
  if (watcher_.load(std::memory_order_relaxed) != &self) return;
  for (int i = 0; i < count; ++i) {
    auto* rung = static_cast<Doorbell*>(events[i].data.ptr);
    // It may have been removed meanwhile.
    if (std::find(doorbells_.begin(), doorbells_.end(), rung) != doorbells_.end()) {
      rung->drain_event();
    }
  }
  for (Doorbell* doorbell : doorbells_) doorbell->announce_sleep(false);
}

// --- of threads that rest -----------------------------------------------------------------------

void Doorbells::rest(Thread& self) {
  std::unique_lock lock(rest_mutex_);
  helping_.fetch_sub(1, std::memory_order_relaxed);
  resting_.fetch_add(1, std::memory_order_relaxed);
  bool watches = false;
  while (!stopping_.load(std::memory_order_relaxed) && wanted_ == 0 && !watches) {
    if (deputy_ == nullptr) deputy_ = &self;
    if (deputy_ != &self) {
      wanted_or_calm_.wait(
          lock);  // bounded: by the one that is the deputy, who tells when it leaves
    } else {
      stand_by(lock, self);
      watches = watcher_.load(std::memory_order_relaxed) == &self;
    }
  }
  if (deputy_ == &self) deputy_ = nullptr;
  resting_.fetch_sub(1, std::memory_order_relaxed);
  if (!watches) {
    helping_.fetch_add(1, std::memory_order_relaxed);
    if (wanted_ != 0) --wanted_;
  }
  if (resting_.load(std::memory_order_relaxed) != 0) {
    wanted_or_calm_.notify_all();  // one of them is the next deputy
    return;
  }
  try {
    start_thread(false);
  } catch (const std::exception&) {  // std::system_error or std::bad_alloc
    // The next one that rests is the deputy.
  }
}

// By the deputy: until its next look, or until something else is to be done.
void Doorbells::stand_by(std::unique_lock<std::mutex>& lock, Thread& self) {
  const auto called = [this] { return stopping_.load(std::memory_order_relaxed) || wanted_ != 0; };
  if (calm_looks_ < kCalmLooks) {
    if (wanted_or_calm_.wait_for(lock, kLook, called)) return;
    calm_looks_ = look(self) ? 0 : calm_looks_ + 1;
    return;
  }
  calm_.store(true);
  // Behind that store: what began before a thread could see it.
  if (!look(self)) {
    wanted_or_calm_.wait_for(lock, std::chrono::milliseconds(kSleepMs),
                             [&] { return called() || !calm_.load(std::memory_order_relaxed); });
  }
  calm_.store(false);
  calm_looks_ = 0;
}

void Doorbells::wake_deputy() {
  {
    const std::lock_guard lock(rest_mutex_);
    calm_.store(false);
  }
  wanted_or_calm_.notify_all();
}

// By the deputy. Whether anything has been served since its last look.
bool Doorbells::look(Thread& self) {
  bool active = false;
  for (Thread& thread : threads_) {
    uint64_t state = thread.state.load();
    const bool same = std::exchange(thread.seen, state) == state;
    active = active || !same;
    if (!same || (state & kServing) == 0 || (state & kOverdue) != 0) continue;
    // Acquire: the doorbell that it serves. From here to catch_up() the thread keeps it.
    if (!thread.state.compare_exchange_strong(state, state | kOverdue)) continue;
    thread.seen = state | kOverdue;
    try {
      const std::lock_guard lock(shares_mutex_);
      overdue_shares_.take(thread.doorbell.load(std::memory_order_relaxed)->client());
      overdue_.store(overdue_shares_.taken(), std::memory_order_relaxed);
      thread.counted = true;
    } catch (const std::bad_alloc&) {
    }
    if (watcher_.load(std::memory_order_relaxed) != &thread) {
      helping_.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    const auto lock = own();
    watcher_.store(&self, std::memory_order_relaxed);
  }
  return active;
}

// By a thread that was overdue, and has done what it served: it helps until it rests.
void Doorbells::catch_up(Thread& self, const Doorbell& doorbell) {
  const std::lock_guard lock(rest_mutex_);
  helping_.fetch_add(1, std::memory_order_relaxed);
  if (!std::exchange(self.counted, false)) return;
  const std::lock_guard shares_lock(shares_mutex_);
  overdue_shares_.give_back(doorbell.client());
  overdue_.store(overdue_shares_.taken(), std::memory_order_relaxed);
}

}  // namespace neuron::transport
