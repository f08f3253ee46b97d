// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/shared_doorbell.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "driver/ndl/error.h"

namespace neuron::ndl {
namespace {

// Of the files that come with the welcome.
constexpr unsigned kPageFile = 0;
constexpr unsigned kEventFile = 1;

}  // namespace

std::unique_ptr<SharedDoorbell> SharedDoorbell::create(SharedChannel& channel) {
  std::unique_ptr<SharedDoorbell> made(new SharedDoorbell(channel));
  base::PacketFiles& files = channel.files();
  if (!files[kPageFile] || !files[kEventFile]) {
    fail(-EPROTO, "the daemon at %s has sent no page for registers", channel.path().c_str());
    return nullptr;
  }
  void* page = ::mmap(nullptr, wire::kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      files[kPageFile].get(), 0);
  if (page == MAP_FAILED) {
    fail(-errno, "the daemon's page for registers cannot be mapped: %s", std::strerror(errno));
    return nullptr;
  }
  ::madvise(page, wire::kRingBytes, MADV_DONTFORK);
  made->page_ = static_cast<wire::RingPage*>(page);
  made->event_ = std::move(files[kEventFile]);
  files[kPageFile].reset();
  return made;
}

SharedDoorbell::~SharedDoorbell() {
  if (page_ != nullptr) ::munmap(page_, wire::kRingBytes);
}

void SharedDoorbell::abandon() {
  // The mapping was not inherited by the child.
  page_ = nullptr;
  event_.reset();
}

// Returns whether the daemon was asleep, and has been woken.
bool SharedDoorbell::ring() {
  // Sequentially consistent, both: either the daemon sees the post before it sleeps, or we see that
  // it sleeps. Its partner is Doorbell::announce_sleep and serve.
  page_->posts.fetch_add(1, std::memory_order_seq_cst);
  const bool asleep = page_->daemon_sleeps.load(std::memory_order_seq_cst) != 0;
  if (asleep) {
    const uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof(one));
  }
  return asleep;
}

int SharedDoorbell::access(uint64_t offset, uint32_t* value, uint32_t flags) {
  if (channel_.gone()) return channel_.fail_gone();
  uint32_t taken = taken_.load(std::memory_order_relaxed);
  unsigned index = 0;
  do {
    index = static_cast<unsigned>(std::countr_one(taken));
    if (index >= wire::kSlots) return kNoSlot;
  } while (!taken_.compare_exchange_weak(taken, taken | 1u << index, std::memory_order_acquire,
                                         std::memory_order_relaxed));
  wire::Slot& slot = page_->slots[index];
  slot.flags = flags;
  slot.offset = offset;
  slot.value = *value;
  slot.asleep.store(0, std::memory_order_relaxed);
  const uint32_t number = ++numbers_[index];
  // Release: the request is complete before the daemon sees its number.
  slot.posted.store(number, std::memory_order_release);
  const bool asleep = ring();
  // Acquire: the result behind it is complete.
  const auto answered = [&] { return slot.answered.load(std::memory_order_acquire) == number; };
  if (!spin_briefly(asleep, answered)) {
    // Pairs with the daemon's store of the answer and its look at this: one sees the other.
    slot.asleep.store(1, std::memory_order_seq_cst);
    const auto answered_now = [&] {
      return slot.answered.load(std::memory_order_seq_cst) == number;
    };
    // The slot stays taken if this fails: the daemon may still answer it.
    if (const int error = channel_.await(answered_now)) return error;
  }
  const int result = slot.result;
  *value = slot.answer;
  // Release: pairs with the acquire above, of the slot's next owner.
  taken_.fetch_and(~(1u << index), std::memory_order_release);
  return result == 0 ? 0 : kRefused;
}

// With post_mutex_ held.
int SharedDoorbell::refused() {
  // Acquire: what the daemon says of the refusal is complete.
  const uint32_t count = page_->refused.load(std::memory_order_acquire);
  if (count == refused_) [[likely]] {
    return 0;
  }
  const uint32_t times = count - refused_;
  refused_ = count;
  const int result = page_->result;
  const uint64_t address = addresses_[page_->refused_last % wire::kPosts];
  return fail(
      result < 0 ? result : -EIO,
      "the daemon at %s has refused %u posted writes of registers, the last of which begins "
      "at address 0x%llx: %s",
      channel_.path().c_str(), times, static_cast<unsigned long long>(address),
      std::strerror(result < 0 ? -result : EIO));
}

int SharedDoorbell::check_posted() {
  const std::lock_guard lock(post_mutex_);
  return refused();
}

int SharedDoorbell::post(std::span<const DevicePort::RegisterWrite> writes) {
  const std::lock_guard lock(post_mutex_);
  if (channel_.gone()) return channel_.fail_gone();
  // Acquire: the daemon has copied what was in the entry.
  const auto room = [&] {
    return posted_ - page_->carried.load(std::memory_order_acquire) < wire::kPosts;
  };
  if (!room()) [[unlikely]] {
    const base::Deadline end =
        base::Deadline::after(std::chrono::milliseconds(SharedChannel::kLimitMs));
    base::Backoff backoff({});
    while (!room()) {
      if (channel_.gone() || (backoff.sleeps() && channel_.hung_up())) return channel_.fail_gone();
      if (backoff.sleeps() && end.expired()) return channel_.fail_silent(SharedChannel::kLimitMs);
      backoff.wait();
    }
  }
  // Behind the wait: the refusal of the entry whose place this one takes names its address.
  if (const int error = refused()) return error;
  wire::PostedWrites& entry = page_->written[posted_ % wire::kPosts];
  entry.count = static_cast<uint32_t>(writes.size());
  for (size_t i = 0; i < writes.size(); ++i) {
    entry.writes[i] = {writes[i].address, writes[i].value, 0};
  }
  addresses_[posted_ % wire::kPosts] = writes[0].address;
  // Release: the entry is complete before the daemon sees the count.
  page_->posted.store(++posted_, std::memory_order_release);
  ring();
  return 0;
}

}  // namespace neuron::ndl
