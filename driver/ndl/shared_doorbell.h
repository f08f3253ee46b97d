// SPDX-License-Identifier: Apache-2.0
// Register accesses through the page that a process shares with the daemon (wire::RingPage).
//
// Concepts: a thread takes a slot, posts its request and spins at most 20 us for the answer. Then
// it sleeps on the channel until the daemon sends a message or dies. Callers: port_shared, any
// thread. Owns: the mapping and the eventfd. Borrows the channel. Fails: negative errno with the
// sentence in error.h.
// Posted writes (wire::PostedWrites) have no answer: the daemon counts what it has carried out and
// what it has refused, and the next call of post() or check_posted() tells a refusal.
#ifndef DRIVER_NDL_SHARED_DOORBELL_H
#define DRIVER_NDL_SHARED_DOORBELL_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "driver/ndl/port.h"
#include "driver/ndl/shared_channel.h"

namespace neuron::ndl {

// Spins until `done` returns true or 20 us have passed; yields the processor after a while. Returns
// the last result of `done`. `asleep`: the other side has just been woken, and may need this
// processor to run at all.
template <typename Done>
bool spin_briefly(bool asleep, Done&& done);

class SharedDoorbell {
 public:
  // Takes page and event from the channel's files; null, with the sentence, if there are none.
  static std::unique_ptr<SharedDoorbell> create(SharedChannel& channel);
  ~SharedDoorbell();
  SharedDoorbell(const SharedDoorbell&) = delete;
  SharedDoorbell& operator=(const SharedDoorbell&) = delete;

  // One access; `value` is written or, without kFlagWrite, receives what was read. kNoSlot when
  // other threads use all slots. kRefused when the daemon refused it; the caller then asks by a
  // message, which returns the sentence.
  int access(uint64_t offset, uint32_t* value, uint32_t flags);
  static constexpr int kNoSlot = 1;
  static constexpr int kRefused = 2;

  // Posts 1 to wire::PostedWrites::kMost register writes, which the daemon carries out in their
  // order and behind what was posted before; waits only while wire::kPosts of them are on their
  // way. A failure may be that of earlier ones (check_posted).
  int post(std::span<const DevicePort::RegisterWrite> writes);
  // 0, or the failure of what the daemon has refused since the last failure that was returned.
  int check_posted();

  void abandon();

 private:
  bool ring();
  int refused();

  explicit SharedDoorbell(SharedChannel& channel) : channel_(channel) {}

  SharedChannel& channel_;
  wire::RingPage* page_ = nullptr;
  base::FileDescriptor event_;
  // Bit per slot in use. Acquire and release hand a slot's number from thread to thread.
  std::atomic<uint32_t> taken_{0};
  uint32_t numbers_[wire::kSlots] = {};
  std::mutex post_mutex_;  // all below
  uint32_t posted_ = 0;
  uint32_t refused_ = 0;                   // those that were told
  uint64_t addresses_[wire::kPosts] = {};  // of the first register of each, for the sentence
};

// --- implementation ---------------------------------------------------------------------------

template <typename Done>
bool spin_briefly(bool asleep, Done&& done) {
  // The first checks take about 3 us and only spin. Then the thread yields: on a loaded machine the
  // daemon may be waiting for this very processor.
  constexpr unsigned kPauses = 16;
  constexpr unsigned kPauseLength = 4;
  for (unsigned i = asleep ? kPauses : 0; i < kPauses; ++i) {
    if (done()) return true;
    for (unsigned k = 0; k < kPauseLength; ++k) base::pause_processor();
  }
  const base::Deadline end = base::Deadline::after(std::chrono::microseconds(20));
  do {
    base::yield_processor();
    if (done()) return true;
  } while (!end.expired());
  return false;
}

}  // namespace neuron::ndl

#endif
