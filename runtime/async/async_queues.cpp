// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_queues.h"

#include <algorithm>
#include <chrono>

#include "driver/base/guarded.h"
#include "runtime/async/async_cost.h"
#include "runtime/base/log.h"
#include "runtime/device/core_turn.h"
#include "runtime/exec/executor.h"
#include "runtime/profile/inspection.h"

namespace neuron::runtime {
namespace {

// Executions that are launched together: the first waits for the last, so it stays small.
constexpr uint32_t kTogether = 16;
// How long a worker stays with a unit while others wait for a worker.
constexpr auto kTurn = std::chrono::microseconds(500);
// Completions that a caller waits for at a time before it checks for progress.
constexpr uint64_t kPatience = 256;

// Queues of each type of unit, as documented; one for collectives, because schedule calls take no
// other.
constexpr uint32_t kQueues[NRTA_XU_TYPE_NUM] = {2, 2, 2, 1, 1};
constexpr uint32_t kUnitsPerCore = 8;
constexpr const char* kNames[NRTA_XU_TYPE_NUM] = {"reads", "writes", "copies", "executions",
                                                  "collectives"};

constexpr uint32_t place_in_core(uint32_t type, uint32_t queue) {
  uint32_t place = queue;
  for (uint32_t t = 0; t < type; ++t) place += kQueues[t];
  return place;
}
static_assert(place_in_core(NRTA_XU_TYPE_NUM, 0) == kUnitsPerCore);

// 15:7 core, 6:4 type, 3:0 queue.
constexpr uint16_t unit_id(uint32_t core, uint32_t type, uint32_t queue) {
  return static_cast<uint16_t>(core << 7 | type << 4 | queue);
}

// Numbers continue from session to session, so that an id of a closed session is recognised as old.
std::atomic<uint64_t> next_first{0};

// Workers that run a device in software need a host core each. On a real device an execution
// occupies no host core, so each core of the device may have its own worker besides.
unsigned worker_limit(const Session& session) {
  const unsigned host = std::max(2u, std::thread::hardware_concurrency());
  bool in_software = true;
  for (const Device* device : session.devices()) in_software &= device->port().descriptor() < 0;
  return in_software ? host : host + session.core_count();
}

}  // namespace

Result<AsyncQueues*> AsyncQueues::of(Session& session) {
  return session.async.of<AsyncQueues>([&]() -> Result<std::unique_ptr<AsyncQueues>> {
    std::unique_ptr<AsyncQueues> made(
        new AsyncQueues(session, next_first.load(std::memory_order_relaxed)));
    NEURON_CHECK(made->workers_.start());
    return made;
  });
}

AsyncQueues::AsyncQueues(Session& session, uint64_t first)
    : session_(session),
      observed_ps_(std::make_unique<std::atomic<uint64_t>[]>(session.core_count())),
      workers_(worker_limit(session), [this](AsyncUnit& unit) { return work(unit); }) {
  for (uint32_t index = 0; index < session.core_count(); ++index) {
    Core& core = **session.core(index);
    for (uint32_t type = 0; type < NRTA_XU_TYPE_NUM; ++type) {
      for (uint32_t queue = 0; queue < kQueues[type]; ++queue) {
        units_.push_back(std::make_unique<AsyncUnit>(core, static_cast<nrta_xu_t>(type), queue,
                                                     unit_id(index, type, queue), first,
                                                     session.configuration().async_queue_depth));
      }
    }
  }
}

AsyncQueues::~AsyncQueues() {
  // No call of the C interface is under way, so nothing is submitted any more.
  stopping_.store(true, std::memory_order_relaxed);
  workers_.stop();
  uint64_t last = next_first.load(std::memory_order_relaxed);
  for (const auto& unit : units_) {
    if (const uint32_t left = unit->available()) unit->complete(left, NRT_CLOSED, 0);
    last = std::max(last, unit->submitted());
  }
  next_first.store(last, std::memory_order_relaxed);
}

Result<AsyncUnit*> AsyncQueues::unit(uint32_t core, nrta_xu_t type, int queue) {
  NEURON_CHECK(session_.core(core));
  if (static_cast<uint32_t>(type) >= NRTA_XU_TYPE_NUM) {
    return fail(NRT_INVALID, "execution unit type {} is none of 0 to {}", static_cast<int>(type),
                NRTA_XU_TYPE_NUM - 1);
  }
  if (queue < 0 || static_cast<uint32_t>(queue) >= kQueues[type]) {
    return fail(NRT_INVALID, "queue {} was asked for; {} of a core have {}", queue, kNames[type],
                kQueues[type] == 1 ? "queue 0 only" : "queues 0 and 1");
  }
  return units_[core * kUnitsPerCore + place_in_core(type, static_cast<uint32_t>(queue))].get();
}

Result<AsyncUnit*> AsyncQueues::unit_of(nrta_seq_t sequence) {
  const auto id = static_cast<uint32_t>(NRTA_SEQ_GET_XU_ID(sequence));
  const uint64_t number = NRTA_SEQ_GET_SEQ_NUM(sequence);
  const uint32_t core = id >> 7, type = id >> 4 & 7, queue = id & 15;
  if (core < session_.core_count() && type < NRTA_XU_TYPE_NUM && queue < kQueues[type]) {
    AsyncUnit& unit = *units_[core * kUnitsPerCore + place_in_core(type, queue)];
    if (number > unit.first() && number <= unit.submitted()) return &unit;
  }
  return fail(NRT_INVALID,
              "there was no request {:#x} since nrt_init; give a sequence id of a schedule call",
              sequence);
}

uint32_t AsyncQueues::core_of(const Storage& storage) const { return session_.core_of(storage); }

Result<nrta_seq_t> AsyncQueues::submit(AsyncUnit& unit, AsyncRequest&& request) {
  // A worker that executes a collective waits for other ranks, which need workers of their own.
  if (request.collective != nullptr || (request.model && !request.model->operations().empty())) {
    workers_.raise_limit(worker_limit(session_) + 2 * session_.core_count());
  }
  request.earliest_ps = observed_ps_[unit.core().index()].load(std::memory_order_relaxed);
  bool idle = false;
  NEURON_TRY(number, unit.submit(std::move(request), idle));
  if (idle) workers_.ready(unit);
  return unit.sequence(number);
}

void AsyncQueues::observed(AsyncUnit& unit, uint64_t number) {
  const uint64_t end = unit.end_of(number);
  std::atomic<uint64_t>& clock = observed_ps_[unit.core().index()];
  uint64_t known = clock.load(std::memory_order_relaxed);
  while (known < end && !clock.compare_exchange_weak(known, end, std::memory_order_relaxed)) {
  }
}

Result<CoreTurn> AsyncQueues::take_turn(const Session& session, LoadedModel& model) {
  if (AsyncQueues* queues = existing(session)) {
    const auto limit = std::chrono::seconds(2 * session.configuration().exec_timeout_s);
    NEURON_CHECK(queues->wait_for_executions(model.core(), limit));
  }
  auto turn = CoreTurn::take(model.core());
  // An execution that never reached its core is counted all the same.
  if (!turn) model.core().counters.refused(turn.error().status);
  return turn;
}

Result<void> AsyncQueues::wait_for_executions(const Core& core, std::chrono::seconds limit) {
  AsyncUnit& unit = *units_[core.index() * kUnitsPerCore + place_in_core(NRTA_XU_COMPUTE, 0)];
  const uint64_t last = unit.submitted();
  uint64_t before = unit.completed();
  // bounded: each round ends with the queue, or by its limit; a round without progress is the last
  while (before < last) {
    if (unit.wait(std::min(last, before + kPatience), base::Deadline::after(limit))) {
      before = unit.completed();
      continue;
    }
    const uint64_t now = unit.completed();
    if (now == before) {
      return fail(NRT_TIMEOUT,
                  "device {} core {}: none of the {} executions that were scheduled before has "
                  "completed within {} s (2 x NEURON_RT_EXEC_TIMEOUT)",
                  core.device().index(), core.number(), last - now, limit.count());
    }
    before = now;
  }
  return {};
}

bool AsyncQueues::work(AsyncUnit& unit) {
  const auto end = std::chrono::steady_clock::now() + kTurn;
  // bounded: by the requests, each of which has a deadline
  while (!stopping_.load(std::memory_order_relaxed)) {
    const uint32_t available = unit.available();
    if (available == 0) {
      if (unit.rest()) return false;
      continue;
    }
    perform(unit, available);
    if (workers_.others_wait() && std::chrono::steady_clock::now() >= end) return true;
  }
  return false;  // the destructor completes the remaining requests
}

void AsyncQueues::perform(AsyncUnit& unit, uint32_t available) {
  const auto begin = [&] {
    if (unit.dead() != NRT_SUCCESS) return unit.complete(available, unit.dead(), 0);
    const AsyncRequest& request = unit.at(0);
    if (request.kind == AsyncKind::kExecute) return execute_some(unit, available);
    if (request.kind == AsyncKind::kCollective) {
      if (auto run = request.collective->run(session_); !run) return end_with(unit, run.error());
      return unit.complete(1, NRT_SUCCESS, request.collective->device_ps());
    }
    if (auto moved = transfer(request); !moved) return end_with(unit, moved.error());
    unit.complete(1, NRT_SUCCESS, transfer_cost_ps(request.size));
  };
  base::guarded(begin, [&](const char* what, bool memory) {
    end_with(unit, memory ? Error(NRT_RESOURCE, {}) : Error(NRT_FAILURE, what));
  });
}

void AsyncQueues::execute_some(AsyncUnit& unit, uint32_t available) {
  const AsyncRequest& first = unit.at(0);
  LoadedModel& model = *first.model;
  uint32_t count = 1;
  const uint32_t limit = std::min(available, kTogether);
  while (count < limit && unit.at(count).tensors == first.tensors &&
         &*unit.at(count).model == &model) {
    ++count;
  }
  uint32_t done = 0;
  uint64_t duration = 0;
  bool unloaded = false;
  auto result = [&]() -> Result<void> {
    NEURON_CHECK(meet_ranks(session_, model));
    NEURON_TRY(turn, CoreTurn::take(model.core()));
    const InspectedExecution inspected(session_, model);
    auto executed = inspected.end(execute_matched(session_, model, *first.tensors, count, done));
    duration = model.report.device_ps;
    unloaded = model.retired();
    return executed;
  }();
  if (done != 0) unit.complete(done, NRT_SUCCESS, duration);
  if (result) return;
  // The request that failed still keeps the model.
  if (unloaded) return end_unloaded(unit, model, result.error().status);
  end_with(unit, result.error());
}

Result<void> AsyncQueues::transfer(const AsyncRequest& request) {
  if (request.size == 0) return {};
  switch (request.kind) {
    case AsyncKind::kRead:
      return request.storage->read(request.host, request.offset, request.size);
    case AsyncKind::kWrite:
      return request.storage->write(request.host, request.offset, request.size);
    case AsyncKind::kCopy:
      return Storage::copy(*request.source, request.source_offset, *request.storage, request.offset,
                           request.size);
    default:
      return fail(NRT_FAILURE, "a request of kind {} in a queue of transfers",
                  static_cast<int>(request.kind));
  }
}

// The front request and those behind it want a model that was unloaded: as many as stand together
// end at once. One line tells of all that wait, however many they are.
void AsyncQueues::end_unloaded(AsyncUnit& unit, const LoadedModel& model, NRT_STATUS status) {
  const bool tell = unit.tell_of(&model);
  uint32_t waiting = 0, together = 0;
  const uint32_t available = unit.available();
  for (uint32_t i = 0; i < available; ++i) {
    const AsyncRequest& request = unit.at(i);
    if (request.kind != AsyncKind::kExecute || &*request.model != &model) continue;
    if (waiting++ == i) together = waiting;
  }
  if (tell) {
    log_error(LogComponent::kNrt,
              "model '{}' was unloaded before {} of its requests in device {} core {}, {} queue {} "
              "had begun, from request {:#x} on; they end with status {}",
              model.name(), waiting, unit.core().device().index(), unit.core().number(),
              unit.name(), unit.queue(), unit.sequence(unit.completed() + 1),
              static_cast<int>(status));
  }
  unit.complete(together, status, 0);
}

// The front request has failed.
void AsyncQueues::end_with(AsyncUnit& unit, const Error& error) {
  log_error(LogComponent::kNrt, "request {:#x} of device {} core {}, {} queue {}: {} (status {})",
            unit.sequence(unit.completed() + 1), unit.core().device().index(), unit.core().number(),
            unit.name(), unit.queue(),
            error.sentence.empty() ? "host memory ran out" : error.sentence.c_str(),
            static_cast<int>(error.status));
  if (error.status == NRT_EXEC_UNIT_UNRECOVERABLE) unit.kill(error.status);
  unit.complete(1, error.status, 0);
}

}  // namespace neuron::runtime
