// SPDX-License-Identifier: Apache-2.0
// Memory of the daemon for the buffers of calls under way: all of them together have a room.
//
// Concepts: a call takes what its buffers need at once, before it has any of them, and gives it
// back when they are gone; so no two wait for each other. What does not fit waits. The next one is
// of the user, and then of the process, that has least of the room; it is not overtaken, so that a
// large one has its turn. Beyond its share (service/shares.h) nobody is the next. Callers: workers.
// Thread-safe: yes. Fails: take is false when nobody waits for the call any more; it throws
// std::bad_alloc, and then nothing was taken.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_CALL_BUDGET_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_CALL_BUDGET_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

#include "driver/emulator/service/shares.h"

namespace neuron::transport {

class CallBudget {
 public:
  // take() gives no more than `room`; who wants more waits until he is alone, and gets that.
  explicit CallBudget(uint64_t room) : room_(room), shares_(room) {}
  CallBudget(const CallBudget&) = delete;
  CallBudget& operator=(const CallBudget&) = delete;

  // `gone`: set when nobody waits for the call any more; seen within 20 ms.
  bool take(const service::Client& client, uint64_t bytes, const std::atomic<bool>& gone);
  // The same for what is here already, of a client that was asked for less of it as soon as it had
  // its share: no room is waited for.
  void take_at_once(const service::Client& client, uint64_t bytes);
  bool has_share(const service::Client& client);
  // What was taken, by the same client.
  void give_back(const service::Client& client, uint64_t bytes);

 private:
  struct Waiting {
    const service::Client& client;
    const uint64_t bytes;
    bool admitted = false;
    std::condition_variable changed;
  };
  void admit();  // with mutex_ held

  const uint64_t room_;
  std::mutex mutex_;
  service::Shares shares_;  // in bytes
  std::list<Waiting*> waiting_;
};

// What one call has taken, until the end of its scope. Borrows all that it is made from.
class CallMemory {
 public:
  CallMemory(CallBudget& budget, const service::Client& client)
      : budget_(budget), client_(client) {}
  ~CallMemory() { give_back(); }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  bool take(uint64_t bytes, const std::atomic<bool>& gone) {
    if (!budget_.take(client_, bytes, gone)) return false;
    bytes_ = bytes;
    return true;
  }
  void take_at_once(uint64_t bytes) {
    budget_.take_at_once(client_, bytes);
    bytes_ = bytes;
  }
  void give_back() {
    if (bytes_ != 0) budget_.give_back(client_, bytes_);
    bytes_ = 0;
  }

 private:
  CallBudget& budget_;
  const service::Client& client_;
  uint64_t bytes_ = 0;
};

}  // namespace neuron::transport

#endif
