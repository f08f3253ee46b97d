// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/read_ring.h"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace neuron::runtime {

std::unique_ptr<ReadRing> ReadRing::create() {
  void* buffers =
      ::mmap(nullptr, kDepth * kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffers == MAP_FAILED) return nullptr;
  std::unique_ptr<ReadRing> made(new ReadRing());
  made->buffers_ = static_cast<std::byte*>(buffers);
  const int result = io_uring_queue_init(kDepth, &made->ring_, 0);
  if (result != 0) {
    made->ring_.ring_fd = -1;
    made.reset();
    errno = -result;
    return nullptr;
  }
  io_uring_ring_dontfork(&made->ring_);
  return made;
}

void ReadRing::register_buffers() {
  if (registered_) return;
  std::array<iovec, kDepth> vectors{};
  for (unsigned slot = 0; slot < kDepth; ++slot) vectors[slot] = {buffer(slot), kPiece};
  registered_ = io_uring_register_buffers(&ring_, vectors.data(), kDepth) == 0;
}

ReadRing::~ReadRing() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
  // The kernel writes into pages that it holds, whatever is mapped there now.
  ::munmap(buffers_, kDepth * kPiece);
}

void ReadRing::begin(unsigned slot, int descriptor, std::byte* to, size_t bytes, uint64_t offset) {
  slots_[slot] = Slot::kEnded;
  results_[slot] = -EAGAIN;
  if (refused_ || silent_) return;
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) return;  // never: there are as many entries as slots
  const auto length = static_cast<unsigned>(bytes);
  if (registered_ && to == buffer(slot)) {
    io_uring_prep_read_fixed(entry, descriptor, to, length, offset, static_cast<int>(slot));
  } else {
    io_uring_prep_read(entry, descriptor, to, length, offset);
  }
  io_uring_sqe_set_data64(entry, slot);
  int result = io_uring_submit(&ring_);
  while (result == -EINTR) result = io_uring_submit(&ring_);
  if (result >= 0) {
    slots_[slot] = Slot::kUnderWay;
    return;
  }
  // What lies in the ring must do no harm if a later call submits it.
  io_uring_prep_nop(entry);
  io_uring_sqe_set_data64(entry, kDepth);
  refused_ = true;
  results_[slot] = result;
}

bool ReadRing::take_one() {
  io_uring_cqe* completion = nullptr;
  __kernel_timespec limit = {kPatienceSeconds, 0};
  int result = io_uring_wait_cqe_timeout(&ring_, &completion, &limit);
  while (result == -EINTR) result = io_uring_wait_cqe_timeout(&ring_, &completion, &limit);
  if (result != 0) {
    silent_ = true;
    return false;
  }
  const uint64_t slot = io_uring_cqe_get_data64(completion);
  if (slot < kDepth) {
    results_[slot] = completion->res;
    slots_[slot] = Slot::kEnded;
  }
  io_uring_cqe_seen(&ring_, completion);
  return true;
}

int ReadRing::wait(unsigned slot) {
  while (slots_[slot] == Slot::kUnderWay) {
    if (silent_ || !take_one()) return kNoAnswer;
  }
  return results_[slot];
}

bool ReadRing::drain() {
  while (std::find(slots_.begin(), slots_.end(), Slot::kUnderWay) != slots_.end()) {
    if (silent_ || !take_one()) return false;
  }
  return true;
}

}  // namespace neuron::runtime
