// SPDX-License-Identifier: Apache-2.0
// The executor for ranks that all share memory.
//
// Concepts: programs are compiled once per plan and kept. A stream has one lane. Operations that
// were started on it run in order, whichever call advances them. run() uses a task of the lane, so
// it allocates nothing.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "ccom/progress/executor.h"
#include "ccom/progress/host_report.h"
#include "ccom/progress/host_wait.h"
#include "ccom/progress/network_report.h"

namespace neuron::ccom {
namespace {

constexpr size_t kPrograms = 512;  // remembered
constexpr auto kSuspicious = std::chrono::milliseconds(10);
// For each rank of the host. A waiting rank compares its call with those of all others, and finds
// out whom it waits for: if hundreds share a few processors and did so at each look, no time would
// be left for the operation.
constexpr auto kBetweenComparisons = std::chrono::microseconds(200);

class HostExecution;

struct Stream {
  explicit Stream(HostLane made) : lane(std::move(made)), task(lane) {}

  HostLane lane;
  HostTask task;                     // used by run()
  std::deque<HostExecution*> queue;  // started, not over; the first one runs
  const Plan* plan = nullptr;        // of the last run(), with its buffers and what it compiled to
  Operands operands;
  const HostProgram* program = nullptr;
  Error broken{CCOM_SUCCESS, {}};  // the failure that ended this stream for good
};

bool ranges_meet(const std::byte* a, uint64_t a_bytes, const std::byte* b, uint64_t b_bytes) {
  return a != nullptr && b != nullptr && a < b + b_bytes && b < a + a_bytes;
}

bool is_in_place(const Plan& plan, Rank rank, const Operands& operands) {
  return plan.request.in_place || ranges_meet(operands.input, plan.schedule->input_bytes(rank),
                                              operands.output, plan.schedule->output_bytes(rank));
}

class HostExecutor;

class HostExecution final : public Execution {
 public:
  HostExecution(HostExecutor& executor, Stream& stream, std::shared_ptr<const HostProgram> program,
                const Operands& operands, const Signature& signature,
                std::chrono::milliseconds timeout, bool crowded)
      : executor_(executor),
        stream_(stream),
        program_(std::move(program)),
        operands_(operands),
        signature_(signature),
        timeout_(timeout),
        task_(stream.lane),
        wait_(crowded) {
    stream_.queue.push_back(this);
  }
  ~HostExecution() override;

  Outcome advance() override;
  const Error& failure() const override { return failure_; }

  // Advances the operation if it is the first of its stream. kDone: it has left the queue.
  Outcome step();

 private:
  HostExecutor& executor_;
  Stream& stream_;
  std::shared_ptr<const HostProgram> program_;
  Operands operands_;
  Signature signature_;
  std::chrono::milliseconds timeout_;
  HostTask task_;
  HostWait wait_;
  base::Moment silent_since_{};
  base::Moment looked_{};
  bool begun_ = false;
  Outcome outcome_ = Outcome::kNotYet;
  uint32_t fruitless_ = 0;
  Error failure_{CCOM_SUCCESS, {}};
};

class HostExecutor final : public Executor {
 public:
  HostExecutor(const ExecutorContext& context, bool crowded, const HostLimits& limits)
      : context_(context), crowded_(crowded), limits_(limits) {
    const auto& members = context_.bootstrap->members();
    const ArenaLayout layout = ArenaLayout::of(context_.size);
    HostLane lane;
    lane.context = &context_;
    lane.one_process = std::all_of(members.begin(), members.end(), [&](const Member& member) {
      return member.process == getpid() && member.host_id == members[context_.rank].host_id;
    });
    for (uint32_t stream = 0; stream < CCOM_MAX_STREAMS; ++stream) {
      lane.streams.clear();
      for (Arena* arena : context_.arenas) {
        lane.streams.push_back(host_stream(arena->data(), layout, stream));
      }
      lane.own = lane.streams[context_.rank];
      lane.staging = context_.arenas[context_.rank]->data() + layout.staging +
                     stream * ArenaLayout::kStagingBytes;
      streams_.push_back(std::make_unique<Stream>(lane));
    }
  }

  ~HostExecutor() override {
    for (const auto& stream : streams_) {
      // Published after everything that this rank posted. Pairs with the acquire of
      // HostTask::desertion().
      stream->lane.own->left.value.store(1, std::memory_order_release);
      stream->lane.wake();
    }
  }

  Result<std::unique_ptr<Execution>> start(std::shared_ptr<const Plan> plan,
                                           const Operands& operands, const Signature& signature,
                                           std::chrono::milliseconds timeout) override {
    NEURON_TRY(stream, usable(signature));
    const bool in_place = is_in_place(*plan, context_.rank, operands);
    NEURON_TRY(program, compiled(plan, in_place));
    return std::unique_ptr<Execution>(
        new HostExecution(*this, *stream, program, operands, signature,
                          timeout.count() != 0 ? timeout : context_.timeout, crowded_));
  }

  Result<void> run(const std::shared_ptr<const Plan>& plan, const Operands& operands,
                   const Signature& signature, std::chrono::milliseconds timeout) override {
    if (signature.stream >= CCOM_MAX_STREAMS) return usable(signature).error();
    Stream& stream = *streams_[signature.stream];
    if (!stream.broken.sentence.empty()) return stream.broken;
    if (!stream.queue.empty()) NEURON_CHECK(drain(stream));
    if (stream.plan != plan.get() || stream.operands.input != operands.input ||
        stream.operands.output != operands.output) {
      NEURON_CHECK(choose(stream, plan, operands));
    }
    HostTask& task = stream.task;
    task.begin(*stream.program, operands, signature);
    Outcome outcome = task.advance();
    if (outcome == Outcome::kNotYet) outcome = wait(stream, timeout);
    if (outcome == Outcome::kDone) [[likely]] {
      return {};
    }
    stream.broken = task.failure();
    return task.failure();
  }

  // Checks what a waiting rank must not miss. kFailed: the task has failed.
  Outcome inspect(HostTask& task, base::Moment silent_since, std::chrono::milliseconds timeout) {
    // Relaxed: interruption() synchronises inside.
    if (context_.interrupted != nullptr &&
        context_.interrupted->load(std::memory_order_relaxed) != 0) {
      return task.fail_with(context_.interruption());
    }
    const base::Moment now = base::Clock::now();
    const bool over = now - silent_since > timeout;
    if (over || (now - silent_since > kSuspicious && compares(task, now))) {
      note(task);
      // A rank that called something else and then left is told by what it called.
      if (auto error = task.disagreement()) return task.fail_with(std::move(*error));
      if (auto error = task.desertion()) return task.fail_with(std::move(*error));
    }
    if (over) {
      const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - silent_since);
      return task.fail_with(host_timeout(task, silent));
    }
    return Outcome::kNotYet;
  }

  // Ranks may wait for their operations in different orders, so a waiting rank advances all
  // streams.
  void advance_others(const Stream& except) {
    for (auto& stream : streams_) {
      if (stream.get() != &except && !stream->queue.empty()) stream->queue.front()->step();
    }
  }

  const ExecutorContext& context() const { return context_; }

 private:
  // Whether it is time to look at all ranks on the task's stream again.
  bool compares(const HostTask& task, base::Moment now) {
    const auto between =
        std::max<base::Clock::duration>(kSuspicious, context_.arenas.size() * kBetweenComparisons);
    base::Moment& compared = compared_[task.signature().stream];
    if (now - compared < between) return false;
    compared = now;
    return true;
  }

  Result<Stream*> usable(const Signature& signature) {
    if (signature.stream >= CCOM_MAX_STREAMS) {
      return fail(CCOM_INVALID, "stream {} does not exist: there are {}", signature.stream,
                  CCOM_MAX_STREAMS);
    }
    Stream& stream = *streams_[signature.stream];
    if (!stream.broken.sentence.empty()) return stream.broken;
    return &stream;
  }

  // Notes the progress of the operation, for a thread that dumps the flight recorder meanwhile.
  void note(const HostTask& task) {
    if (context_.records == nullptr) return;
    FlightRecord* record =
        (*context_.records)[task.signature().stream].load(std::memory_order_acquire);
    if (record == nullptr) return;
    record->waiting_for = task.waiting_for();
    record->steps = task.steps_done();
    record->bytes = task.bytes_done();
  }

  Outcome wait(Stream& stream, std::chrono::milliseconds timeout) {
    HostTask& task = stream.task;
    HostWait waiting(crowded_);
    const bool alone = std::all_of(streams_.begin(), streams_.end(),
                                   [](const auto& other) { return other->queue.empty(); });
    for (;;) {  // bounded: inspect() ends it after a timeout without progress
      const bool look = waiting.turn(task);
      if (!alone) advance_others(stream);
      const Outcome outcome = task.advance();
      if (outcome != Outcome::kNotYet) return outcome;
      if (task.moved()) {
        waiting.reset();
      } else if (look && inspect(task, waiting.since(), timeout) == Outcome::kFailed) {
        return Outcome::kFailed;
      }
    }
  }

  Result<void> drain(Stream& stream) {
    HostWait waiting(crowded_);
    while (!stream.queue.empty()) {
      HostExecution& first = *stream.queue.front();
      if (first.step() == Outcome::kFailed) return first.failure();
      advance_others(stream);
      waiting.turn(stream.task);
    }
    return {};
  }

  Result<void> choose(Stream& stream, const std::shared_ptr<const Plan>& plan,
                      const Operands& operands) {
    const bool in_place = is_in_place(*plan, context_.rank, operands);
    NEURON_TRY(program, compiled(plan, in_place));
    stream.program = program.get();
    stream.plan = plan.get();
    stream.operands = operands;
    return {};
  }

  Result<std::shared_ptr<const HostProgram>> compiled(const std::shared_ptr<const Plan>& plan,
                                                      bool in_place) {
    const auto known = programs_.find(plan.get());
    if (known != programs_.end() && known->second[in_place] != nullptr) {
      return known->second[in_place];
    }
    if (plan->schedule->ranks() != context_.size) {
      return fail(CCOM_INVALID, "a plan for {} ranks was given to an executor of {}",
                  plan->schedule->ranks(), context_.size);
    }
    NEURON_TRY(program, compile_host(plan, context_.rank, in_place, limits_));
    if (programs_.size() >= kPrograms) {
      programs_.clear();
      for (auto& stream : streams_) stream->plan = nullptr;
    }
    // An address identifies a plan, because programs keep their plans alive.
    return programs_[plan.get()][in_place] = std::move(program);
  }

  ExecutorContext context_;
  const bool crowded_;
  std::array<base::Moment, CCOM_MAX_STREAMS> compared_{};  // by stream
  const HostLimits limits_;
  std::vector<std::unique_ptr<Stream>> streams_;
  // By plan: one with separate buffers, one in place.
  std::unordered_map<const Plan*, std::array<std::shared_ptr<const HostProgram>, 2>> programs_;
};

HostExecution::~HostExecution() {
  const auto found = std::find(stream_.queue.begin(), stream_.queue.end(), this);
  if (found == stream_.queue.end()) return;
  stream_.queue.erase(found);
  stream_.broken = fail(CCOM_INVALID,
                        "{} was given up before it was over, so its stream cannot "
                        "be used any more",
                        details(signature_));
  if (begun_) task_.fail_with(stream_.broken);
}

Outcome HostExecution::advance() {
  if (outcome_ == Outcome::kNotYet) executor_.advance_others(stream_);
  while (outcome_ == Outcome::kNotYet) {
    HostExecution& first = *stream_.queue.front();
    const Outcome outcome = first.step();
    if (&first == this) return outcome_;
    if (outcome == Outcome::kNotYet) return outcome;
    if (outcome == Outcome::kFailed) {
      failure_ = first.failure_;
      outcome_ = Outcome::kFailed;
      std::erase(stream_.queue, this);
    }
  }
  return outcome_;
}

Outcome HostExecution::step() {
  if (!begun_) {
    task_.begin(*program_, operands_, signature_);
    begun_ = true;
  }
  Outcome outcome = task_.advance();
  if (outcome == Outcome::kNotYet) {
    if (task_.moved()) {
      fruitless_ = 0;
    } else {
      // The check is by time as well, because callers may ask rarely.
      const base::Moment now = base::Clock::now();
      if (++fruitless_ == 1) silent_since_ = now;
      if (fruitless_ % 64 == 1 || now - looked_ > kSuspicious) {
        looked_ = now;
        outcome = executor_.inspect(task_, silent_since_, timeout_);
      }
    }
  }
  if (outcome == Outcome::kNotYet) return outcome;
  outcome_ = outcome;
  if (outcome == Outcome::kFailed) {
    failure_ = task_.failure();
    stream_.broken = failure_;
  }
  std::erase(stream_.queue, this);
  return outcome;
}

}  // namespace

Result<std::unique_ptr<Executor>> make_host_executor(const ExecutorContext& context) {
  if (context.arenas.size() != context.size || context.rank >= context.size) {
    return fail(CCOM_INVALID, "an executor for rank {} of {} was given {} arenas", context.rank,
                context.size, context.arenas.size());
  }
  const ArenaLayout layout = ArenaLayout::of(context.size);
  for (Rank rank = 0; rank < context.size; ++rank) {
    if (context.arenas[rank] == nullptr) {
      return fail(CCOM_UNSUPPORTED,
                  "rank {} shares no memory with rank {}: they are on different hosts", rank,
                  context.rank);
    }
    if (context.arenas[rank]->size() < layout.heap) {
      return fail(CCOM_MISMATCH,
                  "the shared memory of rank {} has {} bytes, a group of {} ranks needs {}: all "
                  "ranks must run the same version",
                  rank, context.arenas[rank]->size(), context.size, layout.heap);
    }
  }
  cpu_set_t processors;
  const bool known = sched_getaffinity(0, sizeof processors, &processors) == 0;
  const uint32_t online = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  // The processors of a rank that is bound to one say nothing about the other ranks.
  const uint32_t available =
      known && CPU_COUNT(&processors) > 1 ? static_cast<uint32_t>(CPU_COUNT(&processors)) : online;
  HostLimits limits;
  limits.rank_order = context.rank_order;
  // Limits on which ranks must agree follow from facts that all of them see; each rank chooses its
  // own way to wait.
  limits.value_bytes = context.size > online ? 8192 : 1024;
  const bool crowded = context.size > available;
  return std::unique_ptr<Executor>(new HostExecutor(context, crowded, limits));
}

}  // namespace neuron::ccom
