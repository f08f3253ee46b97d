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
  // Sequentially consistent, both: either the daemon sees the post before it sleeps, or we see that
  // it sleeps. Its partner is Doorbell::announce_sleep and serve.
  page_->posts.fetch_add(1, std::memory_order_seq_cst);
  const bool asleep = page_->daemon_sleeps.load(std::memory_order_seq_cst) != 0;
  if (asleep) {
    const uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof(one));
  }
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

}  // namespace neuron::ndl
