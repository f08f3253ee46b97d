// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/communicator.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "ccom/bootstrap/rank_list.h"
#include "ccom/communicator/members.h"
#include "ccom/plan/calibration.h"
#include "ccom/request/names.h"
#include "ccom/transport/arena_layout.h"
#include "ccom/transport/fabric_address.h"

namespace neuron::ccom {
namespace {

constexpr size_t kPlans = 256;
constexpr size_t kLargeBlock = 64u << 20;

// Bytes that the host can still give; 0: it does not say.
uint64_t available_memory() {
  FILE* file = fopen("/proc/meminfo", "re");
  if (file == nullptr) {
    return 0;
  }
  char line[128];
  unsigned long long kilobytes = 0;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1) {
      break;
    }
  }
  fclose(file);
  return uint64_t{kilobytes} << 10;
}

}  // namespace

bool Communicator::Lane::same(const ccom_collective_t& call) const {
  // Everything but the buffers, which are checked by themselves. No padding: see the assertion.
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

Communicator::Communicator(std::unique_ptr<Bootstrap> bootstrap, const Settings& settings)
    : settings_(settings),
      rank_(bootstrap->rank()),
      size_(static_cast<uint32_t>(bootstrap->members().size())),
      bootstrap_(std::move(bootstrap)) {}

Communicator::~Communicator() {
  dump_failure();
  for (Lane& lane : lanes_) {
    for (Started* started : lane.pending) {
      started->owner = nullptr;
      started->execution.reset();
    }
  }
  executor_.reset();
  // Its thread calls note_failure(): it ends before what that uses.
  bootstrap_.reset();
}

void Communicator::forget() {
  dumped_ = true;
  // Threads and locks of the parent do not exist here; its descriptors close with the process.
  for (Lane& lane : lanes_) {
    for (Started* started : lane.pending) {
      started->owner = nullptr;
      static_cast<void>(started->execution.release());
    }
    lane.pending.clear();
  }
  static_cast<void>(executor_.release());
  static_cast<void>(bootstrap_.release());
}

Result<std::unique_ptr<Communicator>> Communicator::make(std::unique_ptr<Bootstrap> bootstrap,
                                                         const Settings& settings) {
  std::unique_ptr<Communicator> made(new Communicator(std::move(bootstrap), settings));
  const base::Deadline deadline = base::Deadline::after(settings.timeout);
  const Result<void> done = made->set_up(deadline);
  if (!done) {
    // Others would wait for this rank.
    made->bootstrap_->abort(done.error().with("{} could not set up its communicator",
                                              describe(made->bootstrap_->members()[made->rank_])));
    return done.error();
  }
  return made;
}

Result<void> Communicator::set_up(base::Deadline deadline) {
  bootstrap_->on_failure([this](Rank, const Error& error) { note_failure(error); });
  NEURON_CHECK(agree(*bootstrap_, settings_, deadline));
  NEURON_TRY(arenas, share_arenas(*bootstrap_, settings_, deadline));
  arenas_ = std::move(arenas);
  Arena& mine = *arenas_[rank_];
  const ArenaLayout layout = ArenaLayout::of(size_);
  heap_at_ = mine.data() + layout.heap;
  heap_ = std::make_unique<Heap>(mine.size() - layout.heap);
  recorder_ = std::make_unique<FlightRecorder>(mine.data() + layout.flight);
  NEURON_TRY(group, place_members(bootstrap_->members(), settings_));
  NEURON_TRY(costs, calibration_of_environment(Medium::kHostMemory));
  planner_ = std::make_unique<Planner>(std::move(group), costs);
  plans_ = std::make_unique<PlanCache>(*planner_, kPlans);

  ExecutorContext context;
  context.rank = rank_;
  context.size = size_;
  context.bootstrap = bootstrap_.get();
  for (const auto& arena : arenas_) {
    context.arenas.push_back(arena.get());
  }
  context.rank_order = settings_.rank_order;
  context.providers = settings_.providers;
  context.local_address = address_towards(settings_.root);
  context.deadline = deadline;
  context.timeout = settings_.timeout;
  context.interrupted = &interrupted_;
  context.interruption = [this] { return failure(); };
  context.records = &records_;
  const bool local = one_host(bootstrap_->members()) && (settings_.shared_memory || size_ == 1);
  NEURON_TRY(executor, local ? make_host_executor(context) : make_network_executor(context));
  executor_ = std::move(executor);
  return bootstrap_->barrier(deadline);
}

void Communicator::dump_failure() {
  // Not where the failure is noticed: that may be another thread, in the middle of anything.
  if (!dumped_ && status() != CCOM_SUCCESS && executor_ != nullptr &&
      !settings_.dump_path.empty()) {
    dumped_ = true;
    static_cast<void>(dump(settings_.dump_path));
  }
}

Result<void> Communicator::usable() {
  if (status() != CCOM_SUCCESS) {
    dump_failure();
    return failure();
  }
  return {};
}

Result<void> Communicator::run_lane(Lane& lane, const Operands& operands) {
  if (interrupted_.load(std::memory_order_relaxed) != 0) {
    dump_failure();
    Signature next = lane.signature;
    next.operation = lane.next;
    return failure().with("{} could not begin", describe(next));
  }
  lane.key.input = operands.input;
  lane.key.output = operands.output;
  if (started_ != 0) {
    return run_among_started(lane, operands);
  }
  lane.signature.operation = lane.next++;
  FlightRecord& record = recorder_->begin(lane.signature);
  std::atomic<FlightRecord*>& under_way = records_[lane.signature.stream];
  // Relaxed: read by this thread, and by a proxy that the executor synchronises with.
  under_way.store(&record, std::memory_order_relaxed);
  Result<void> done = executor_->run(lane.plan, operands, lane.signature, lane.timeout);
  under_way.store(nullptr, std::memory_order_relaxed);
  if (done) {
    recorder_->end(record, CCOM_SUCCESS);
    return done;
  }
  recorder_->end(record, done.error().status);
  return give_up(lane.signature, done.error());
}

Result<void> Communicator::run_new(const ccom_collective_t& call) {
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

Result<void> Communicator::prepare(Lane& lane, const ccom_collective_t& call) {
  lane.known = false;
  NEURON_TRY(request, make_request(call, size_));
  if (request.operation == CCOM_ALL_TO_ALL_V) {
    NEURON_CHECK(exchange_counts(lane, call, request));
  }
  const Extents sizes = buffer_extents(request, rank_, size_);
  NEURON_CHECK(check_buffers(call, sizes));
  request.in_place = in_place(sizes, call.input, call.output);
  NEURON_TRY(plan, plans_->find(request));
  lane.key = call;
  lane.plan = plan;
  lane.extents = sizes;
  lane.timeout = call.timeout_ms != 0 ? std::chrono::milliseconds(call.timeout_ms)
                                      : std::chrono::milliseconds(settings_.timeout);
  lane.signature = make_signature(request, call.stream, 0);
  // The algorithm that runs, not the one that was asked for: ranks that chose differently must see.
  lane.signature.algorithm = static_cast<uint8_t>(plan->algorithm);
  // Arrays are read at each call: what they point to may have changed.
  lane.known = call.counts == nullptr && call.displacements == nullptr && call.pairs == nullptr &&
               request.operation != CCOM_ALL_TO_ALL_V;
  return {};
}

Result<void> Communicator::exchange_counts(Lane& lane, const ccom_collective_t& call,
                                           Request& request) {
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
  NEURON_TRY(plan, plans_->find(gather));
  lane.plan = plan;
  lane.signature = make_signature(gather, call.stream, CCOM_ALL_TO_ALL_V);
  lane.signature.algorithm = static_cast<uint8_t>(plan->algorithm);
  lane.timeout = std::chrono::milliseconds(
      call.timeout_ms != 0 ? call.timeout_ms : static_cast<uint64_t>(settings_.timeout.count()));
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
            describe(bootstrap_->members()[from]), sends, to, describe(bootstrap_->members()[to]),
            receives);
        return give_up(lane.signature, error);
      }
    }
  }
  return {};
}

Result<void*> Communicator::allocate(size_t bytes) {
  // Pages come with use: a host that cannot give them would kill the process then.
  if (bytes >= kLargeBlock) {
    const uint64_t available = available_memory();
    if (available != 0 && bytes > available) {
      return fail(CCOM_RESOURCE,
                  "rank {}: {} bytes of shared memory were asked for, but the host has only {} "
                  "bytes available",
                  rank_, bytes, available);
    }
  }
  const auto offset = heap_->allocate(bytes);
  if (!offset) {
    return offset.error().with("rank {}", rank_);
  }
  return static_cast<void*>(heap_at_ + *offset);
}

Result<void> Communicator::release(void* memory) {
  const auto at = reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(heap_at_);
  const auto freed = heap_->release(at);
  if (!freed) {
    return freed.error().with("rank {}: ccom_mem_free({})", rank_,
                              ccom::format("{:#x}", reinterpret_cast<uintptr_t>(memory)));
  }
  // Gives the pages of large blocks back; the next owner finds zeros.
  if (*freed >= (2u << 20)) {
    madvise(memory, *freed, MADV_REMOVE);
  }
  return {};
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  NEURON_CHECK(usable());
  const int32_t mine[2] = {color, key};
  const base::Deadline deadline = base::Deadline::after(settings_.timeout);
  NEURON_TRY(all, bootstrap_->all_gather(std::as_bytes(std::span(mine)), deadline));
  std::vector<std::pair<int32_t, Rank>> order;
  for (Rank i = 0; i < size_; ++i) {
    int32_t theirs[2];
    if (all[i].size() != sizeof(theirs)) {
      return fail(CCOM_MISMATCH, "{} is not at ccom_split, {} is",
                  describe(bootstrap_->members()[i]), describe(bootstrap_->members()[rank_]));
    }
    std::memcpy(theirs, all[i].data(), sizeof(theirs));
    if (theirs[0] == color) {
      order.emplace_back(theirs[1], i);
    }
  }
  if (color < 0) {
    return std::unique_ptr<Communicator>();
  }
  std::sort(order.begin(), order.end());
  std::vector<Rank> ranks;
  for (const auto& [theirs, rank] : order) {
    ranks.push_back(rank);
  }
  NEURON_TRY(group, bootstrap_->regroup(ranks, deadline));
  if (group->members().size() != ranks.size()) {
    return fail(CCOM_TIMEOUT, "ccom_split: only {} of {} ranks with color {} came",
                group->members().size(), ranks.size(), color);
  }
  return make(std::move(group), settings_);
}

Result<std::unique_ptr<Communicator>> Communicator::shrink() {
  // Whatever is under way ends first, here and elsewhere.
  abort("it shrinks the communicator");
  const std::vector<Rank> dead = bootstrap_->dead();
  std::vector<Rank> ranks;
  for (Rank i = 0; i < size_; ++i) {
    if (std::find(dead.begin(), dead.end(), i) == dead.end()) {
      ranks.push_back(i);
    }
  }
  // Ranks that do not come are given up after half a second in which nobody else came.
  const auto limit =
      std::min<std::chrono::milliseconds>(settings_.timeout, std::chrono::milliseconds(10000));
  NEURON_TRY(group, bootstrap_->regroup(ranks, base::Deadline::after(limit)));
  return make(std::move(group), settings_);
}

void Communicator::abort(const std::string& why) {
  if (status() == CCOM_SUCCESS) {
    bootstrap_->abort(
        fail(CCOM_ABORTED, "{} aborted: {}", describe(bootstrap_->members()[rank_]), why));
  }
}

Result<std::string> Communicator::explain(const ccom_collective_t& call) {
  NEURON_TRY(request, make_request(call, size_));
  if (request.operation == CCOM_ALL_TO_ALL_V) {
    return fail(CCOM_UNSUPPORTED,
                "all_to_all_v is planned from what all ranks send; explain all_to_all instead");
  }
  request.in_place = in_place(buffer_extents(request, rank_, size_), call.input, call.output);
  return planner_->explain(request);
}

Error Communicator::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void Communicator::note_failure(const Error& error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (interrupted_.load(std::memory_order_relaxed) != 0) {
      return;
    }
    failure_ = error;
    // Publishes the failure. Pairs with the acquire of status().
    interrupted_.store(error.status, std::memory_order_release);
  }
}

Error Communicator::give_up(const Signature& signature, Error error) {
  const std::string operation = describe(signature);
  if (status() == CCOM_SUCCESS) {
    note_failure(error);
    bootstrap_->abort(
        error.with("{} gave up {}", describe(bootstrap_->members()[rank_]), operation));
  }
  dump_failure();
  if (error.sentence.find(operation) == std::string::npos) {
    error = error.with("{}", operation);
  }
  return error;
}

}  // namespace neuron::ccom
