// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_unit.h"

namespace neuron::runtime {

const char* AsyncUnit::name() const {
  switch (type_) {
    case NRTA_XU_TENSOR_READ:
      return "tensor read";
    case NRTA_XU_TENSOR_WRITE:
      return "tensor write";
    case NRTA_XU_TENSOR_OP:
      return "tensor copy";
    case NRTA_XU_COMPUTE:
      return "compute";
    default:
      return "unknown";
  }
}

Result<uint64_t> AsyncUnit::submit(AsyncRequest&& request, bool& idle) {
  uint64_t number = 0;
  {
    std::lock_guard lock(submit_mutex_);
    if (dead() != NRT_SUCCESS) {
      return fail(dead(),
                  "device {} core {}: {} queue {} takes no more requests after a failure that a "
                  "reset did not end; close the runtime and initialise it again",
                  core_.device().index(), core_.number(), name(), queue_);
    }
    number = submitted_.load(std::memory_order_relaxed) + 1;
    // Acquire: pairs with complete(); the slot of a completed request is free.
    if (number - completed_.load(std::memory_order_acquire) > depth_) {
      return fail(NRT_QUEUE_FULL,
                  "device {} core {}: {} queue {} has {} requests outstanding, which is its depth; "
                  "wait for one, or raise NEURON_OPEN_ASYNC_QUEUE_DEPTH",
                  core_.device().index(), core_.number(), name(), queue_, depth_);
    }
    if (ring_ == nullptr) {
      ends_ = std::make_unique<std::atomic<uint64_t>[]>(size_t{2} * depth_);
      ring_ = std::make_unique<AsyncRequest[]>(depth_);
    }
    ring_[number & (depth_ - 1)] = std::move(request);
    submitted_.store(number);
  }
  idle = !scheduled_.load() && !scheduled_.exchange(true);
  return number;
}

uint64_t AsyncUnit::end_of(uint64_t number) const {
  if (completed() - number >= depth_) return 0;
  // Acquire: pairs with complete(), where a later request's end precedes its completion.
  const uint64_t end = end_slot(number).load(std::memory_order_acquire);
  // The slot is still this request's: its next request is submitted after `depth_` more have
  // completed.
  return completed() - number < depth_ ? end : 0;
}

void AsyncUnit::complete(uint32_t count, NRT_STATUS status, uint64_t duration_ps) {
  const uint64_t before = completed_.load(std::memory_order_relaxed);
  uint64_t end = end_ps_.load(std::memory_order_relaxed);
  uint64_t start = end;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t number = before + 1 + i;
    AsyncRequest& request = ring_[number & (depth_ - 1)];
    start = std::max(end, request.earliest_ps);
    end = start + duration_ps;
    end_slot(number).store(end, std::memory_order_release);
    // Release: a thread that polls the word sees what the request did.
    if (request.result.word != nullptr) {
      __atomic_store_n(reinterpret_cast<int*>(request.result.word), static_cast<int>(status),
                       __ATOMIC_RELEASE);
    }
    if (request.result.tracker && status != NRT_SUCCESS) {
      request.result.tracker->add(sequence(number), status);
    }
    // The request's resources are released before waiters are told: a waiter may rely on it.
    request = AsyncRequest();
  }
  start_ps_.store(start, std::memory_order_relaxed);
  end_ps_.store(end, std::memory_order_relaxed);
  busy_ps_.fetch_add(count * duration_ps, std::memory_order_relaxed);
  if (status != NRT_SUCCESS) failed_.fetch_add(count, std::memory_order_relaxed);
  completed_.store(before + count);
  events_.fire(completed_);
}

bool AsyncUnit::rest() {
  scheduled_.store(false);
  return submitted_.load() == completed_.load(std::memory_order_relaxed) ||
         scheduled_.exchange(true);
}

AsyncUnit::Totals AsyncUnit::totals() const {
  Totals totals;
  totals.completed = completed() - first_;
  totals.failed = failed_.load(std::memory_order_relaxed);
  totals.busy_ps = busy_ps_.load(std::memory_order_relaxed);
  totals.start_ps = start_ps_.load(std::memory_order_relaxed);
  totals.end_ps = end_ps_.load(std::memory_order_relaxed);
  return totals;
}

}  // namespace neuron::runtime
