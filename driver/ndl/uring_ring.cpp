// SPDX-License-Identifier: Apache-2.0
// The ring of async_copies.h on the kernel's io_uring.
#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver/ndl/async_copies.h"

namespace neuron::ndl {
namespace {

constexpr unsigned kEntries = 64;
constexpr int kQueryTimeoutSeconds = 5;

class UringRing : public CompletionRing {
 public:
  explicit UringRing(int descriptor) : descriptor_(descriptor) {}
  ~UringRing() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  // True if the system has io_uring and the driver answers commands on it.
  bool open() {
    // Entries of twice the size: the argument of a command lies inside the entry.
    if (io_uring_queue_init(kEntries, &ring_, IORING_SETUP_SQE128) != 0) return false;
    open_ = true;
    // A forked child must not inherit the ring's pages.
    io_uring_ring_dontfork(&ring_);
    io_uring_sqe* entry = prepare(NEURON_URING_QUERY, 0);
    if (entry == nullptr || io_uring_submit(&ring_) != 1) return false;
    io_uring_cqe* completion = nullptr;
    __kernel_timespec limit = {kQueryTimeoutSeconds, 0};
    if (io_uring_wait_cqe_timeout(&ring_, &completion, &limit) != 0) return false;
    const int version = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    return version >= NEURON_URING_VERSION;
  }

  int submit(const neuron_uring_copy& copy, uint64_t id) override {
    io_uring_sqe* entry = prepare(NEURON_URING_COPY, id);
    if (entry == nullptr) return -EBUSY;
    static_assert(sizeof(copy) <= 80, "the room of an entry of 128 bytes");
    std::memcpy(reinterpret_cast<char*>(entry) + kCommandOffset, &copy, sizeof(copy));
    const int submitted = io_uring_submit(&ring_);
    if (submitted >= 1) return 0;
    // The entry stays in the ring and goes out with the next submission; as a NOP it does nothing
    // then.
    std::memset(entry, 0, 2 * sizeof(*entry));
    entry->opcode = IORING_OP_NOP;
    return submitted < 0 ? submitted : -EAGAIN;
  }

  bool reap(uint64_t* id, int* result) override {
    io_uring_cqe* completion = nullptr;
    if (io_uring_peek_cqe(&ring_, &completion) != 0) return false;
    *id = completion->user_data;
    *result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    return true;
  }

  void wait(int timeout_ms) override {
    pollfd poller = {ring_.ring_fd, POLLIN, 0};
    poll(&poller, 1, timeout_ms);
  }

  void abandon() override {
    // The child does not have the mappings; only the descriptor is left.
    if (open_) close(ring_.ring_fd);
    open_ = false;
  }

 private:
  static constexpr size_t kCommandOffset = 48;  // of the argument in an entry

  io_uring_sqe* prepare(uint32_t operation, uint64_t id) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return nullptr;
    std::memset(entry, 0, 2 * sizeof(*entry));
    entry->opcode = IORING_OP_URING_CMD;
    entry->fd = descriptor_;
    entry->cmd_op = operation;
    entry->user_data = id;
    return entry;
  }

  const int descriptor_;
  io_uring ring_ = {};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<CompletionRing> make_completion_ring(int descriptor) {
  auto ring = std::make_unique<UringRing>(descriptor);
  if (!ring->open()) return nullptr;
  return ring;
}

}  // namespace neuron::ndl
