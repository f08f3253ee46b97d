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
// Threads in all.
constexpr unsigned kMostThreads = 4;
constexpr int kSleepMs = 10'000;

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

bool Doorbell::serve() {
  // Pairs with the client's increment, so that the slots behind it are seen. Sequentially
  // consistent, as in announce_sleep(): a client that did not see us asleep is seen here.
  const uint32_t posts = page_->posts.load(std::memory_order_seq_cst);
  if (posts == posts_.load(std::memory_order_relaxed)) return false;
  if (busy_.test_and_set(std::memory_order_acquire)) return false;
  posts_.store(posts, std::memory_order_relaxed);
  for (unsigned i = 0; i < wire::kSlots; ++i) {
    // Acquire: pairs with the client's release store, which follows the request.
    const uint32_t number = page_->slots[i].posted.load(std::memory_order_acquire);
    if (number == served_[i]) continue;
    base::take_from_other_processes();
    serve(i, number);
  }
  busy_.clear(std::memory_order_release);
  return true;
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
  } catch (const std::bad_alloc&) {
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
  const unsigned helpers = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads) - 1;
  Doorbells* const doorbells = made.get();
  made->threads_.emplace_back([doorbells] { doorbells->watch(); });
  for (unsigned i = 0; i < helpers; ++i) {
    made->threads_.emplace_back([doorbells] { doorbells->help(); });
  }
  return made;
}

Doorbells::~Doorbells() {
  stopping_.store(true);
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  {
    const std::lock_guard lock(help_mutex_);
    wanted_ = kMostThreads;
  }
  help_wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Doorbells::add(Doorbell& doorbell) {
  waiting_.fetch_add(1);
  const std::unique_lock lock(mutex_);
  waiting_.fetch_sub(1);
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

void Doorbells::remove(Doorbell& doorbell) {
  waiting_.fetch_add(1);
  const std::unique_lock lock(mutex_);
  waiting_.fetch_sub(1);
  std::erase(doorbells_, &doorbell);
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, doorbell.event(), nullptr);
}

unsigned Doorbells::pass() {
  // Threads that add or remove a doorbell are quick.
  while (waiting_.load(std::memory_order_relaxed) != 0) base::yield_processor();
  const std::shared_lock lock(mutex_);
  unsigned busy = 0;
  for (Doorbell* doorbell : doorbells_) busy += doorbell->serve();
  return busy;
}

void Doorbells::ask_for_help() {
  if (resting_.load(std::memory_order_relaxed) == 0) return;
  {
    const std::lock_guard lock(help_mutex_);
    if (wanted_ == 0) wanted_ = 1;
  }
  help_wanted_.notify_one();
}

void Doorbells::sleep() {
  epoll_event events[16];
  {
    const std::shared_lock lock(mutex_);
    for (Doorbell* doorbell : doorbells_) doorbell->announce_sleep(true);
  }
  // What was posted before a client could know.
  const bool more = pass() != 0;
  const int count = more ? 0 : ::epoll_wait(epoll_.get(), events, 16, kSleepMs);
  // First the accesses that a client waits for.
  if (count > 0) (void)pass();
  const std::shared_lock lock(mutex_);
  for (int i = 0; i < count; ++i) {
    auto* rung = static_cast<Doorbell*>(events[i].data.ptr);
    // It may have been removed meanwhile.
    if (std::find(doorbells_.begin(), doorbells_.end(), rung) != doorbells_.end()) {
      rung->drain_event();
    }
  }
  for (Doorbell* doorbell : doorbells_) doorbell->announce_sleep(false);
}

// False when there has been nothing to do for so long that the thread may sleep.
bool Doorbells::spin(unsigned& idle) {
  const Clock::time_point end = Clock::now() + kSpin;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (const unsigned busy = pass(); busy != 0) {
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

void Doorbells::watch() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    unsigned idle = 0;
    if (!spin(idle)) sleep();
  }
}

void Doorbells::help() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    unsigned idle = 0;
    if (spin(idle)) continue;
    std::unique_lock lock(help_mutex_);
    resting_.fetch_add(1, std::memory_order_relaxed);
    help_wanted_.wait_for(lock, std::chrono::milliseconds(kSleepMs),
                          [this] { return wanted_ != 0; });
    resting_.fetch_sub(1, std::memory_order_relaxed);
    if (wanted_ != 0) --wanted_;
  }
}

}  // namespace neuron::transport
