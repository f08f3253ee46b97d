// SPDX-License-Identifier: Apache-2.0
// Operations that were started: their order, their progress, their end.
#include <algorithm>

#include "ccom/communicator/streams.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

// Backoff between checks of an operation that does not advance.
constexpr base::Backoff::Steps kLooks{.pauses = 256, .yields = 3840};

}  // namespace

Started::~Started() {
  if (owner != nullptr && !over) {
    owner->started_ -= std::erase(owner->lanes_[stream].pending, this);
  }
}

std::unique_ptr<Started> Streams::enqueue(Lane& lane, const Operands& operands) {
  auto started = std::make_unique<Started>();
  started->stream = lane.signature.stream;
  started->plan = lane.plan;
  started->operands = operands;
  started->timeout = lane.timeout;
  started->signature = lane.signature;
  started->signature.operation = lane.next;
  lane.pending.push_back(started.get());
  started->owner = this;
  ++started_;
  ++lane.next;
  return started;
}

Result<std::unique_ptr<Started>> Streams::start(const ccom_collective_t& call) {
  NEURON_CHECK(usable());
  if (call.stream >= CCOM_MAX_STREAMS) {
    return make_request(call, size_).error();
  }
  Lane& lane = lanes_[call.stream];
  if (call.operation == CCOM_ALL_TO_ALL_V) {
    NEURON_CHECK(drain(lane));  // the exchange of counts runs at once
  }
  if (!lane.same(call)) {
    NEURON_CHECK(prepare(lane, call));
  }
  auto started = enqueue(
      lane, {static_cast<const std::byte*>(call.input), static_cast<std::byte*>(call.output)});
  advance(lane);
  return started;
}

Result<void> Streams::run_among_started(Lane& lane, const Operands& operands) {
  const auto started = enqueue(lane, operands);
  Error error;
  if (wait(*started, error) != CCOM_SUCCESS) {
    return error;
  }
  return {};
}

void Streams::finish(Lane& lane, Started& started, ccom_status_t status, Error error) {
  // Streams share the recorder, so the slot may belong to another operation by now.
  if (started.record != nullptr && started.record->signature == started.signature) {
    recorder_.end(*started.record, status);
  }
  if (started.record != nullptr) {
    records_[started.stream].store(nullptr, std::memory_order_relaxed);
  }
  started.execution.reset();
  started.over = true;
  started.status = status;
  if (status != CCOM_SUCCESS) {
    started.error = give_up(started.signature, std::move(error));
  }
  lane.pending.pop_front();
  --started_;
}

void Streams::advance(Lane& lane) {
  while (!lane.pending.empty()) {
    Started& first = *lane.pending.front();
    if (failure_.there()) {
      const Error error = failure_.error();
      finish(lane, first, error.status, error);
      continue;
    }
    if (first.execution == nullptr) {
      first.record = &recorder_.begin(first.signature);
      records_[first.stream].store(first.record, std::memory_order_relaxed);
      auto execution = executor_->start(first.plan, first.operands, first.signature, first.timeout);
      if (!execution) {
        finish(lane, first, execution.error().status, execution.error());
        continue;
      }
      first.execution = std::move(*execution);
    }
    const Outcome outcome = first.execution->advance();
    if (outcome == Outcome::kDone) {
      finish(lane, first, CCOM_SUCCESS, {});
      continue;
    }
    if (outcome == Outcome::kFailed) {
      const Error error = first.execution->failure();
      finish(lane, first, error.status, error);
      continue;
    }
    return;
  }
}

// Other ranks may wait for any stream, whichever one this rank waits for.
void Streams::advance_all() {
  for (Lane& lane : lanes_) {
    advance(lane);
  }
}

Result<void> Streams::drain(Lane& lane) {
  base::Backoff backoff(kLooks);
  while (!lane.pending.empty()) {
    const size_t before = lane.pending.size();
    advance_all();
    lane.pending.size() != before ? backoff.reset() : backoff.wait();
  }
  return usable();
}

ccom_status_t Streams::test(Started& started, Error& error) {
  if (!started.over && started.owner == nullptr) {
    error = fail(CCOM_ABORTED, "{}: its communicator was freed before it was done",
                 describe(started.signature));
    return error.status;
  }
  if (!started.over) {
    started.owner->advance_all();
  }
  if (!started.over) {
    return CCOM_IN_PROGRESS;
  }
  error = started.error;
  return started.status;
}

ccom_status_t Streams::wait(Started& started, Error& error) {
  base::Backoff backoff(kLooks);
  // bounded: the executor ends an operation that makes no progress for its timeout.
  for (;;) {
    const ccom_status_t status = test(started, error);
    if (status != CCOM_IN_PROGRESS) {
      return status;
    }
    backoff.wait();
  }
}

}  // namespace neuron::ccom
