// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/streams.h"

#include <cstring>
#include <iterator>

#include "ccom/bootstrap/rank_list.h"
#include "ccom/request/names.h"

namespace neuron::ccom {
namespace {

constexpr size_t kPlans = 256;

}  // namespace

bool Streams::Lane::same(const ccom_collective_t& call) const {
  // Compares everything but the buffers, which are checked separately. There is no padding: see the
  // assertion.
  static_assert(offsetof(ccom_collective_t, input) == 32 &&
                offsetof(ccom_collective_t, count) == 48 && sizeof(ccom_collective_t) == 104);
  if (!known || std::memcmp(&call, &key, 32) != 0 ||
      std::memcmp(&call.count, &key.count, 104 - 48) != 0) {
    return false;
  }
  return (call.input == key.input && call.output == key.output) ||
         (in_place(extents, call.input, call.output) == plan->request.in_place &&
          check_buffers(call, extents));
}

Streams::Streams(Bootstrap& bootstrap, const Planner& planner, FlightRecorder& recorder,
                 FirstFailure& failure, FlightDump& dump, std::chrono::milliseconds timeout)
    : bootstrap_(bootstrap),
      recorder_(recorder),
      failure_(failure),
      dump_(dump),
      rank_(bootstrap.rank()),
      size_(static_cast<uint32_t>(bootstrap.members().size())),
      timeout_(timeout),
      plans_(planner, kPlans) {}

Streams::~Streams() {
  end_launches();
  for (Lane& lane : lanes_) {
    for (Started* started : lane.pending) {
      started->owner = nullptr;
      started->execution.reset();
    }
  }
}

void Streams::forget() {
  // Threads and locks of the parent do not exist here; its descriptors close with the process.
  for (Lane& lane : lanes_) {
    for (Started* started : lane.pending) {
      started->owner = nullptr;
      static_cast<void>(started->execution.release());
    }
    lane.pending.clear();
  }
  static_cast<void>(executor_.release());
  static_cast<void>(launcher_.release());
  for (auto& launched : launched_) {
    static_cast<void>(launched.release());
  }
}

Result<void> Streams::usable() {
  const auto held = hold();  // the launcher may be writing the dump
  if (failure_.status() != CCOM_SUCCESS) {
    dump_.after_failure();
    return failure_.error();
  }
  if (suspended_) {
    return fail(CCOM_INVALID, "the communicator is suspended: all ranks call ccom_resume first");
  }
  return {};
}

void Streams::suspend() {
  const auto held = hold();
  suspended_ = true;
  for (Lane& lane : lanes_) {
    lane.known = false;  // a repeated call asks again whether it may run
  }
  executor_->free_memory();
}

Result<void> Streams::run_lane(Lane& lane, const Operands& operands) {
  if (failure_.there()) {
    dump_.after_failure();
    Signature next = lane.signature;
    next.operation = lane.next;
    return failure_.error().with("{} could not begin", describe(next));
  }
  lane.key.input = operands.input;
  lane.key.output = operands.output;
  if (started_ != 0) {
    return run_among_started(lane, operands);
  }
  lane.signature.operation = lane.next++;
  FlightRecord& record = recorder_.begin(lane.signature);
  std::atomic<FlightRecord*>& under_way = records_[lane.signature.stream];
  // Relaxed: this thread reads it, and so does a proxy that the executor synchronises with.
  under_way.store(&record, std::memory_order_relaxed);
  Result<void> done = executor_->run(lane.plan, operands, lane.signature, lane.timeout);
  under_way.store(nullptr, std::memory_order_relaxed);
  if (done) {
    recorder_.end(record, CCOM_SUCCESS);
    return done;
  }
  recorder_.end(record, done.error().status);
  return give_up(lane.signature, done.error());
}

Result<void> Streams::run_new(const ccom_collective_t& call) {
  if (const auto usable_now = usable(); !usable_now) {
    return usable_now.error().with("{} could not begin", operation_name(call.operation));
  }
  if (call.stream >= CCOM_MAX_STREAMS) {
    return make_request(call, size_).error();
  }
  Lane& lane = lanes_[call.stream];
  NEURON_CHECK(drain(lane));
  NEURON_CHECK(prepare(lane, call));
  return run_lane(
      lane, {static_cast<const std::byte*>(call.input), static_cast<std::byte*>(call.output)});
}

Result<void> Streams::prepare(Lane& lane, const ccom_collective_t& call) {
  lane.known = false;
  NEURON_TRY(request, make_request(call, size_));
  if (request.operation == CCOM_ALL_TO_ALL_V) {
    NEURON_CHECK(exchange_counts(lane, call, request));
  }
  const BufferExtents sizes = buffer_extents(request, rank_, size_);
  NEURON_CHECK(check_buffers(call, sizes));
  request.in_place = in_place(sizes, call.input, call.output);
  lane.signature = make_signature(request, call.stream, 0);
  NEURON_TRY(plan, plans_.find(request));
  lane.key = call;
  lane.plan = plan;
  lane.extents = sizes;
  lane.timeout = timeout_of(call);
  // The algorithm that runs, not the requested one, so that ranks with different choices find out.
  lane.signature.algorithm = static_cast<uint8_t>(plan->algorithm);
  // Arrays are read at each call, because their contents may have changed.
  lane.known = call.counts == nullptr && call.displacements == nullptr && call.pairs == nullptr &&
               request.operation != CCOM_ALL_TO_ALL_V;
  return {};
}

std::chrono::milliseconds Streams::timeout_of(const ccom_collective_t& call) const {
  return call.timeout_ms != 0 ? std::chrono::milliseconds(call.timeout_ms) : timeout_;
}

Result<void> Streams::exchange_counts(Lane& lane, const ccom_collective_t& call, Request& request) {
  const uint64_t* const arrays[] = {call.counts, call.displacements, call.receive_counts,
                                    call.receive_displacements};
  static const char* const kNames[] = {"counts", "displacements", "receive_counts",
                                       "receive_displacements"};
  const size_t n = size_;
  std::vector<uint64_t> row;
  for (size_t i = 0; i < std::size(arrays); ++i) {
    if (arrays[i] == nullptr) {
      return fail(CCOM_INVALID, "all_to_all_v: {} is null; it needs {} numbers, one for each rank",
                  kNames[i], n);
    }
    row.insert(row.end(), arrays[i], arrays[i] + n);
  }
  std::vector<uint64_t> rows(row.size() * n);
  Request gather;
  gather.operation = CCOM_ALL_GATHER;
  gather.type = CCOM_UINT64;
  gather.count = row.size();
  NEURON_TRY(plan, plans_.find(gather));
  lane.plan = plan;
  lane.signature = make_signature(gather, call.stream, CCOM_ALL_TO_ALL_V);
  lane.signature.algorithm = static_cast<uint8_t>(plan->algorithm);
  lane.timeout = timeout_of(call);
  NEURON_CHECK(run_lane(lane, {reinterpret_cast<const std::byte*>(row.data()),
                               reinterpret_cast<std::byte*>(rows.data())}));
  const auto take = [&](size_t which, std::vector<uint64_t>& into) {
    for (size_t rank = 0; rank < n; ++rank) {
      const auto from = rows.begin() + static_cast<ptrdiff_t>((rank * 4 + which) * n);
      into.insert(into.end(), from, from + static_cast<ptrdiff_t>(n));
    }
  };
  std::vector<uint64_t> receive_counts;
  take(0, request.send_counts);
  take(1, request.send_displacements);
  take(2, receive_counts);
  take(3, request.receive_displacements);
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      const uint64_t sends = request.send_counts[from * n + to];
      const uint64_t receives = receive_counts[to * n + from];
      if (sends != receives) {
        const Error error = fail(
            CCOM_MISMATCH, "all_to_all_v: {} sends {} elements to rank {}, {} expects {} from it",
            describe(bootstrap_.members()[from]), sends, to, describe(bootstrap_.members()[to]),
            receives);
        return give_up(lane.signature, error);
      }
    }
  }
  return {};
}

Error Streams::give_up(const Signature& signature, Error error) {
  const std::string operation = describe(signature);
  if (failure_.status() == CCOM_SUCCESS) {
    failure_.note(error);
    bootstrap_.abort(error.with("{} gave up {}", describe(bootstrap_.members()[rank_]), operation));
  }
  dump_.after_failure();
  if (error.sentence.find(operation) == std::string::npos) {
    error = error.with("{}", operation);
  }
  return error;
}

}  // namespace neuron::ccom
