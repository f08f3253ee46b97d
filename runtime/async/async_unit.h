// SPDX-License-Identifier: Apache-2.0
//
// One queue of an execution unit: a bounded ring of requests, first in, first out.
// Callers: schedule calls (submit), one worker at a time (available, front, complete, rest), any
// thread (the const functions, waits, events). Thread-safe: for these callers. Requests are
// numbered and complete in order, each once. A request up to completed() has completed, and its
// status is stored.
// Owns the ring, made by the first submit. Fails: NRT_QUEUE_FULL, or what killed the unit.
#ifndef RUNTIME_ASYNC_ASYNC_UNIT_H
#define RUNTIME_ASYNC_ASYNC_UNIT_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/base/deadline.h"
#include "nrt/nrt_async.h"
#include "runtime/async/async_events.h"
#include "runtime/async/async_request.h"

namespace neuron::runtime {

class AsyncUnit {
 public:
  // `first`: the number before the first request; `depth`: a power of two.
  AsyncUnit(Core& core, nrta_xu_t type, uint32_t queue, uint16_t id, uint64_t first, uint32_t depth)
      : core_(core),
        type_(type),
        queue_(queue),
        id_(id),
        depth_(depth),
        first_(first),
        submitted_(first),
        completed_(first) {}
  AsyncUnit(const AsyncUnit&) = delete;
  AsyncUnit& operator=(const AsyncUnit&) = delete;

  Core& core() const { return core_; }
  nrta_xu_t type() const { return type_; }
  uint32_t queue() const { return queue_; }
  const char* name() const;

  // Takes the request over and returns its number. `idle`: no worker has the unit, and the caller
  // must hand it to one.
  Result<uint64_t> submit(AsyncRequest&& request, bool& idle);

  // Acquire: pairs with the release in submit() and complete(). A thread that sees a request
  // completed sees what the request did.
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  uint64_t first() const { return first_; }
  uint64_t sequence(uint64_t number) const {
    return uint64_t{id_} << 48 | (number & NRTA_SEQ_NUM_MASK);
  }
  // The model time at which a completed request ended; 0 if it is no longer known.
  uint64_t end_of(uint64_t number) const;

  // The worker's side. available(): requests from front() on.
  uint32_t available() const {
    return static_cast<uint32_t>(submitted() - completed_.load(std::memory_order_relaxed));
  }
  AsyncRequest& at(uint32_t index) {
    return ring_[(completed_.load(std::memory_order_relaxed) + 1 + index) & (depth_ - 1)];
  }
  // The next `count` requests have ended with `status`, each after `duration_ps` of model time.
  void complete(uint32_t count, NRT_STATUS status, uint64_t duration_ps);
  // The worker leaves an empty unit. False: a request has come meanwhile, and the worker stays.
  bool rest();
  // Notes that the log tells of all requests of this model that are in the queue, because it was
  // unloaded. False: it has told of the front one before. A request that was in the queue then
  // keeps its model, so the address means the same model.
  bool tell_of(const void* model) {
    const uint64_t front = completed_.load(std::memory_order_relaxed) + 1;
    if (told_model_ == model && front <= told_through_) return false;
    told_model_ = model;
    told_through_ = submitted();
    return true;
  }
  // From now on requests are refused with `status`.
  void kill(NRT_STATUS status) { dead_.store(status, std::memory_order_relaxed); }
  NRT_STATUS dead() const { return static_cast<NRT_STATUS>(dead_.load(std::memory_order_relaxed)); }

  // False: the deadline passed before the request completed.
  bool wait(uint64_t number, base::Deadline deadline) {
    return events_.wait(completed_, number, deadline);
  }
  AsyncEvents& events() { return events_; }
  const std::atomic<uint64_t>& progress() const { return completed_; }

  // The unit's work so far, in model time.
  struct Totals {
    uint64_t completed = 0;
    uint64_t failed = 0;
    uint64_t busy_ps = 0;
    uint64_t start_ps = 0;  // of the last request
    uint64_t end_ps = 0;
  };
  Totals totals() const;

  AsyncUnit* next_ready = nullptr;  // belongs to AsyncWorkers

 private:
  std::atomic<uint64_t>& end_slot(uint64_t number) const {
    return ends_[number & (2 * uint64_t{depth_} - 1)];
  }

  Core& core_;
  const nrta_xu_t type_;
  const uint32_t queue_;
  const uint16_t id_;
  const uint32_t depth_;
  const uint64_t first_;
  std::mutex submit_mutex_;  // writers of ring slots above submitted_
  std::unique_ptr<AsyncRequest[]> ring_;
  // Twice `depth_` entries: the end of a completed request stays known while that many are
  // outstanding.
  std::unique_ptr<std::atomic<uint64_t>[]> ends_;
  std::atomic<int> dead_{NRT_SUCCESS};
  // Of the worker.
  const void* told_model_ = nullptr;
  uint64_t told_through_ = 0;
  alignas(64) std::atomic<uint64_t> submitted_;
  // Whether a worker has the unit or will get it. Sequentially consistent with submitted_: either
  // the worker that leaves sees the request, or its submitter sees that the worker has left.
  std::atomic<bool> scheduled_{false};
  alignas(64) std::atomic<uint64_t> completed_;
  // Written by the worker, read by totals(); each word is independent of the others.
  std::atomic<uint64_t> failed_{0}, busy_ps_{0}, start_ps_{0}, end_ps_{0};
  AsyncEvents events_;
};

}  // namespace neuron::runtime

#endif
