// SPDX-License-Identifier: Apache-2.0
// Operations that were started: their order, their progress, their end.
#include <algorithm>
#include <system_error>
#include <utility>

#include "ccom/communicator/streams.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

// Backoff between checks of an operation that does not advance.
constexpr base::Backoff::Steps kLooks{.pauses = 256, .yields = 3840};

}  // namespace

Started::~Started() {
  if (owner != nullptr && !over) {
    const auto held = owner->hold();
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

Result<std::unique_ptr<Started>> Streams::queue(const ccom_collective_t& call) {
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
  return enqueue(lane,
                 {static_cast<const std::byte*>(call.input), static_cast<std::byte*>(call.output)});
}

Result<std::unique_ptr<Started>> Streams::start(const ccom_collective_t& call) {
  const auto held = hold();
  NEURON_TRY(started, queue(call));
  advance(lanes_[call.stream]);
  return std::move(started);
}

Result<void> Streams::launch(const ccom_collective_t& call, const ccom_completion_t& completion) {
  if (!launcher_) {
    try {
      launcher_ = std::make_unique<Launcher>(
          [this] { advance_all(); },
          [this](const char* what, bool memory_ran_out) { cannot_go_on(what, memory_ran_out); });
    } catch (const std::system_error& error) {
      return fail(CCOM_RESOURCE, "rank {} has no thread for launched operations: {}", rank_,
                  error.code().message());
    }
  }
  const auto held = hold();
  NEURON_TRY(started, queue(call));
  started->completion = completion;
  launched_.push_back(std::move(started));
  launcher_->launched();
  advance(lanes_[call.stream]);
  return {};
}

void Streams::end_launches() {
  if (!launcher_) {
    return;
  }
  {
    const auto held = hold();
    auto launched = std::exchange(launched_, {});
    std::vector<std::pair<ccom_completion_t, std::string>> endings;
    for (const auto& each : launched) {
      endings.emplace_back(*each->completion,
                           ccom::format("{}: its communicator was freed before it was done",
                                        describe(each->signature)));
    }
    // From here on no rank and no network touches the buffers, which belong to who is told.
    launched.clear();
    for (auto& [completion, sentence] : endings) {
      launcher_->ended(completion, CCOM_ABORTED, std::move(sentence));
    }
  }
  launcher_.reset();
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
  if (status != CCOM_SUCCESS) {
    started.error = give_up(started.signature, std::move(error));
  }
  if (started.completion) {
    launcher_->ended(*started.completion, status, started.error.sentence);
  }
  // What throws does so above: the operation is still pending then, and ends at the next look.
  started.over = true;
  started.status = status;
  lane.pending.pop_front();
  --started_;
  if (started.completion) {
    std::erase_if(launched_, [&](const auto& launched) { return launched.get() == &started; });
  }
}

void Streams::cannot_go_on(const char* what, bool memory_ran_out) noexcept {
  try {
    const Error error = fail(memory_ran_out ? CCOM_RESOURCE : CCOM_SYSTEM,
                             "rank {} cannot go on with its launched operations: {}", rank_, what);
    if (!failure_.there()) {
      failure_.note(error);
      bootstrap_.abort(error);
    }
  } catch (const std::bad_alloc&) {
    // The launcher looks again, and comes here again.
  }
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
  const auto held =
      started.owner != nullptr ? started.owner->hold() : std::unique_lock<std::recursive_mutex>();
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
