// SPDX-License-Identifier: Apache-2.0
#include "ccom/progress/network_engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "ccom/transport/arena.h"
#include "ccom/transport/fabric_connection.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSilence{1000};           // without progress, before the others are asked
constexpr milliseconds kAnswer{300};             // time for answers before a deadline
constexpr milliseconds kGrace{500};              // more time, if some have not answered by then
constexpr milliseconds kSuspicion{1000};         // time to learn the reason of a broken connection
constexpr std::chrono::seconds kWithdrawal{10};  // time for neighbours on this host to end a copy
constexpr milliseconds kQuiescence{100};         // time for the network to give memory back
constexpr uint32_t kRoundsPerLook = 64;          // idle rounds between looks at the clock
constexpr uint32_t kAskedAtOnce = 256;           // larger groups ask along the chain of waits

}  // namespace

NetworkEngine::NetworkEngine(const ExecutorContext& context, std::vector<Member> members,
                             std::unique_ptr<NetworkPort> port,
                             std::vector<std::unique_ptr<Connection>> shared)
    : context_(context),
      members_(std::move(members)),
      port_(std::move(port)),
      shared_(std::move(shared)),
      reports_(context.size),
      no_memory_(fail(CCOM_RESOURCE,
                      "rank {} has no memory left for the progress of collectives: its process "
                      "needs more, or a larger limit",
                      context.rank)) {
  connections_.resize(context.size);
  shared_.resize(context.size);
  for (Rank rank = 0; rank < context.size; ++rank) {
    connections_[rank] = rank == context.rank       ? nullptr
                         : shared_[rank] != nullptr ? shared_[rank].get()
                                                    : &port_->connection(rank);
  }
  port_->on_control = [this](Rank rank, const ControlMessage& message) {
    take_report(rank, message);
  };
}

NetworkEngine::~NetworkEngine() {
  port_->on_control = nullptr;
  if (failure_) {
    return;
  }
  try {
    ControlMessage farewell = own_report();
    farewell.leaving = true;
    port_->say_farewell(farewell);
  } catch (const std::bad_alloc&) {
    // The others find out at their deadline, then.
  }
}

bool NetworkEngine::idle() const {
  return !port_->busy() && std::all_of(queues_.begin(), queues_.end(),
                                       [](const auto& queue) { return queue.empty(); });
}

Result<void> NetworkEngine::begin(NetworkTask& task) {
  if (failure_) {
    return *failure_;
  }
  const auto undo = [&] {
    for (auto& queue : queues_) {
      if (!queue.empty() && queue.back() == &task) {
        queue.pop_back();
      }
    }
    release(task);
    task.runner.reset();
  };
  try {
    auto admitted = admit(task);
    if (!admitted) {
      undo();
    }
    return admitted;
  } catch (const std::bad_alloc&) {
    undo();
    return fail(CCOM_RESOURCE, "rank {} has no memory for {}, which wants {} bytes of scratch",
                context_.rank, details(task.signature),
                task.plan->schedule->scratch_bytes(context_.rank));
  }
}

Result<void> NetworkEngine::admit(NetworkTask& task) {
  const Schedule& schedule = *task.plan->schedule;
  if (task.signature.stream >= CCOM_MAX_STREAMS || schedule.ranks() != context_.size) {
    return fail(CCOM_INVALID,
                "a collective of stream {} for {} ranks; there are {} streams and {} ranks",
                task.signature.stream, schedule.ranks(), CCOM_MAX_STREAMS, context_.size);
  }
  if (schedule.channels() > FabricTag::kChannels) {
    return fail(CCOM_UNSUPPORTED, "a schedule of {} channels; messages between hosts have {}",
                schedule.channels(), FabricTag::kChannels);
  }
  NEURON_CHECK(port_->add_memory(task.operands.input, schedule.input_bytes(context_.rank)));
  task.known = 1;
  NEURON_CHECK(port_->add_memory(task.operands.output, schedule.output_bytes(context_.rank)));
  task.known = 2;
  task.scratch = take_scratch(schedule.scratch_bytes(context_.rank));
  NEURON_CHECK(port_->add_memory(task.scratch, schedule.scratch_bytes(context_.rank)));
  task.known = 3;
  auto& queue = queues_[task.signature.stream];
  queue.push_back(&task);
  if (queue.size() == 1) {
    activate(task);
  }
  return {};
}

std::byte* NetworkEngine::take_scratch(uint64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  // Reserves now, so that giving the memory back never allocates.
  lent_.reserve(lent_.size() + 1);
  scratches_.reserve(scratches_.size() + lent_.size() + 1);
  for (size_t i = 0; i < scratches_.size(); ++i) {
    if (scratches_[i].first >= bytes) {
      lent_.push_back(std::move(scratches_[i]));
      scratches_.erase(scratches_.begin() + static_cast<ptrdiff_t>(i));
      return lent_.back().second.get();
    }
  }
  // None is large enough: all are freed, so that growing sizes do not pile up.
  scratches_.clear();
  const uint64_t unit = bytes >= kHugePage ? kHugePage : 4096;
  const uint64_t rounded = (bytes + unit - 1) / unit * unit;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(unit, rounded));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  if (unit == kHugePage) {
    madvise(memory, rounded, MADV_HUGEPAGE);
  }
  lent_.emplace_back(rounded, Scratch(memory, &std::free));
  return memory;
}

uint64_t NetworkEngine::scratch_bytes() const {
  uint64_t bytes = 0;
  for (const auto* list : {&scratches_, &lent_}) {
    for (const auto& scratch : *list) {
      bytes += scratch.first;
    }
  }
  return bytes;
}

void NetworkEngine::activate(NetworkTask& task) {
  StreamReport& stream = streams_[task.signature.stream];
  stream.before = stream.state == StreamState::kIdle ? Signature{} : stream.last;
  stream.last = task.signature;
  stream.state = StreamState::kUnderWay;
  port_->expect(task.signature);
  task.moved = base::Clock::now();
  task.ask = task.moved + std::min(kSilence, task.timeout / 2);
  task.runner.emplace(context_.rank, connections_, task.plan, task.operands, task.scratch,
                      task.signature);
  task.state.store(TaskState::kRunning, std::memory_order_release);
}

void NetworkEngine::release(NetworkTask& task) {
  const void* memories[] = {task.operands.input, task.operands.output, task.scratch};
  for (uint32_t i = 0; i < task.known; ++i) {
    port_->remove_memory(memories[i]);
  }
  task.known = 0;
  for (size_t i = 0; i < lent_.size(); ++i) {
    if (lent_[i].second.get() == task.scratch) {
      scratches_.push_back(std::move(lent_[i]));
      lent_.erase(lent_.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
  }
}

void NetworkEngine::finish(NetworkTask& task) {
  auto& queue = queues_[task.signature.stream];
  queue.pop_front();
  StreamReport& stream = streams_[task.signature.stream];
  stream.state = StreamState::kDone;
  stream.steps = task.runner->steps();
  note(task, false);
  release(task);
  task.runner.reset();
  // Pairs with the acquire of the caller that waits: from here on, results and buffers belong to
  // the caller.
  task.state.store(TaskState::kDone, std::memory_order_release);
  if (!queue.empty()) {
    activate(*queue.front());
  }
}

void NetworkEngine::fail_all(Error error) {
  if (!failure_) {
    failure_ = std::move(error);
  }
  for (auto& queue : queues_) {
    if (!queue.empty() && queue.front()->runner) {
      StreamReport& stream = streams_[queue.front()->signature.stream];
      stream.state = StreamState::kFailed;
      stream.steps = queue.front()->runner->steps();
      stream.waits_for = queue.front()->runner->waits_for();
      note(*queue.front(), true);
    }
  }
  port_->quiesce(base::Deadline::after(kQuiescence));
  const base::Deadline withdrawn = base::Deadline::after(kWithdrawal);
  for (const auto& connection : shared_) {
    if (connection != nullptr) {
      connection->withdraw(withdrawn);
    }
  }
  for (auto& queue : queues_) {
    while (!queue.empty()) {
      NetworkTask& task = *queue.front();
      queue.pop_front();
      release(task);
      task.runner.reset();
      try {
        task.failure = *failure_;
      } catch (const std::bad_alloc&) {
        task.failure = Error{failure_->status, "out of memory"};  // allocates nothing
      }
      // Pairs with the acquire of the caller that waits: nothing touches its buffers any more.
      task.state.store(TaskState::kFailed, std::memory_order_release);
    }
  }
}

void NetworkEngine::forget(NetworkTask& task) {
  const TaskState state = task.state.load(std::memory_order_relaxed);
  if (state != TaskState::kDone && state != TaskState::kFailed) {
    Error error;
    try {
      error = fail(CCOM_ABORTED, "rank {} gave up {} before its end", context_.rank,
                   details(task.signature));
    } catch (const std::bad_alloc&) {
      error = std::move(no_memory_);
    }
    fail_all(std::move(error));
  }
}

bool NetworkEngine::round() {
  try {
    return turn();
  } catch (const std::bad_alloc&) {
    fail_all(std::move(no_memory_));
    return true;
  }
}

bool NetworkEngine::turn() {
  moved_ = false;
  if (port_->progress() == Outcome::kDone) {
    moved_ = true;
  }
  for (const auto& connection : shared_) {
    if (connection != nullptr) {
      // The steps show whether that did anything; they also show a failure.
      connection->progress();
    }
  }
  if (failure_) {
    return moved_;
  }
  for (auto& queue : queues_) {
    if (!queue.empty()) {
      step(*queue.front());
    }
  }
  if (moved_) {
    idle_rounds_ = 0;
  } else {
    ++idle_rounds_;
  }
  // Other threads set it with release, after the error that interruption() returns.
  if (context_.interrupted != nullptr &&
      context_.interrupted->load(std::memory_order_acquire) != 0 && !failure_) {
    if (std::any_of(queues_.begin(), queues_.end(), [](const auto& q) { return !q.empty(); })) {
      fail_all(context_.interruption ? context_.interruption()
                                     : fail(CCOM_ABORTED, "the communicator was interrupted"));
    }
  } else if (idle_rounds_ % kRoundsPerLook == kRoundsPerLook - 1) {
    const base::Moment now = base::Clock::now();
    for (auto& queue : queues_) {
      if (!queue.empty() && !failure_) {
        watch(*queue.front(), now);
      }
    }
  }
  return moved_;
}

void NetworkEngine::step(NetworkTask& task) {
  if (task.suspicion) {
    judge(task, base::Clock::now());
    return;
  }
  const Outcome outcome = task.runner->advance();
  if (task.runner->moved()) {
    moved_ = true;
    task.moving = true;
  }
  if (outcome == Outcome::kDone) {
    moved_ = true;
    finish(task);
  } else if (outcome == Outcome::kFailed) {
    suspect(task);
  }
}

// A connection failed. Others know the reason better: the peer's report knows a mismatch, and the
// bootstrap, which sees processes die, knows a broken connection.
void NetworkEngine::suspect(NetworkTask& task) {
  const base::Moment now = base::Clock::now();
  task.suspicion = task.runner->failure();
  task.suspect = task.runner->failed()->peer();
  task.decide = now + std::min(kSuspicion, task.timeout);
  if (task.suspicion->status == CCOM_MISMATCH) {
    ask(task.suspect, now);
  }
}

void NetworkEngine::judge(NetworkTask& task, base::Moment now) {
  if (task.suspicion->status == CCOM_MISMATCH &&
      different_call(task.signature, reports_[task.suspect])) {
    compare(task);
  } else if (now >= task.decide) {
    fail_all(task.suspicion->with("{} of {}", details(task.signature),
                                  rank_text(context_.rank, members_)));
  }
}

// Fails the task if a rank made another call under its number.
void NetworkEngine::compare(NetworkTask& task) {
  for (Rank rank = 0; rank < context_.size; ++rank) {
    if (rank == context_.rank) {
      continue;
    }
    if (const auto theirs = different_call(task.signature, reports_[rank])) {
      // The peer gets this rank's report, so it can report the same at once.
      port_->send_control(rank, own_report());
      fail_all(mismatch_error(context_.rank, task.signature, rank, *theirs, members_,
                              connections_[rank]->description()));
      return;
    }
  }
}

// Called when nothing has happened for some rounds.
void NetworkEngine::watch(NetworkTask& task, base::Moment now) {
  if (task.moving) {
    task.moving = false;
    task.moved = now;
    task.ask = now + std::min(kSilence, task.timeout / 2);
    task.asked_finally = false;
    return;
  }
  note(task, true);
  if (somebody_left_ && deserted(task)) {
    return;
  }
  const base::Moment end = task.moved + task.timeout;
  const bool finally = !task.asked_finally && now >= end - std::min(kAnswer, task.timeout / 4);
  if (now >= task.ask || finally) {
    task.asked_finally = task.asked_finally || finally;
    ask_all(task, now);
    // Asks less and less often.
    task.ask = now + std::max<base::Clock::duration>(kSilence, now - task.moved);
  }
  if (now >= end + std::min(kGrace, task.timeout) || (now >= end && all_answered())) {
    std::vector<std::pair<Rank, std::string>> awaited;
    for (const Rank rank : task.runner->awaited()) {
      awaited.emplace_back(rank, connections_[rank]->description());
    }
    const auto silent = std::chrono::duration_cast<milliseconds>(now - task.moved);
    fail_all(timeout_error(context_.rank, task.signature, silent, awaited, reports_, members_));
  }
}

// Fails the task if a rank has left that never began it. A rank that left after its part does no
// harm: its messages arrive.
bool NetworkEngine::deserted(NetworkTask& task) {
  for (Rank rank = 0; rank < context_.size; ++rank) {
    const RankReport& report = reports_[rank];
    if (report.message && report.message->leaving && behind(task.signature, report)) {
      fail_all(left_error(context_.rank, task.signature, rank, report, members_));
      return true;
    }
  }
  return false;
}

bool NetworkEngine::all_answered() const {
  return std::all_of(reports_.begin(), reports_.end(), [](const RankReport& report) {
    return report.asked == base::Moment{} || report.at >= report.asked;
  });
}

void NetworkEngine::ask(Rank rank, base::Moment now) {
  reports_[rank].asked = now;
  ControlMessage question = own_report();
  question.question = true;
  port_->send_control(rank, question);
}

void NetworkEngine::ask_all(NetworkTask& task, base::Moment now) {
  if (context_.size <= kAskedAtOnce) {
    for (Rank rank = 0; rank < context_.size; ++rank) {
      if (rank != context_.rank) {
        ask(rank, now);
      }
    }
    return;
  }
  // In large groups the question follows the chain of waiting ranks, one link each time.
  std::vector<bool> asked(context_.size);
  for (Rank rank : task.runner->awaited()) {
    while (rank != context_.rank && rank < context_.size && !asked[rank]) {
      asked[rank] = true;
      ask(rank, now);
      const auto& report = reports_[rank].message;
      rank = report ? report->streams[task.signature.stream].waits_for : StreamReport::kNobody;
    }
  }
}

void NetworkEngine::take_report(Rank rank, const ControlMessage& message) {
  reports_[rank].message = message;
  reports_[rank].at = base::Clock::now();
  somebody_left_ = somebody_left_ || message.leaving;
  if (message.question) {
    port_->send_control(rank, own_report());
  }
  for (auto& queue : queues_) {
    if (!queue.empty() && !failure_ && different_call(queue.front()->signature, reports_[rank])) {
      // The task is not failed here, because the port is in the middle of its completions.
      queue.front()->suspicion = fail(CCOM_MISMATCH, "rank {} called another collective", rank);
      queue.front()->suspect = rank;
      queue.front()->decide = base::Clock::now();
    }
  }
}

ControlMessage NetworkEngine::own_report() const {
  ControlMessage message;
  message.streams = streams_;
  for (uint32_t i = 0; i < CCOM_MAX_STREAMS; ++i) {
    StreamReport& stream = message.streams[i];
    if (stream.state == StreamState::kUnderWay && !queues_[i].empty() &&
        queues_[i].front()->runner) {
      stream.steps = queues_[i].front()->runner->steps();
      stream.waits_for = queues_[i].front()->runner->waits_for();
    }
  }
  return message;
}

// Notes the progress in the flight record of the stream, if there is one.
void NetworkEngine::note(NetworkTask& task, bool waiting) {
  if (context_.records == nullptr) {
    return;
  }
  // The communicator's thread published it with release when the operation began.
  FlightRecord* record = (*context_.records)[task.signature.stream].load(std::memory_order_acquire);
  if (record == nullptr || !(record->signature == task.signature)) {
    return;
  }
  // Dumps read while this is written; they only need untorn words.
  std::atomic_ref(record->bytes).store(task.runner->bytes(), std::memory_order_relaxed);
  std::atomic_ref(record->steps)
      .store(static_cast<uint32_t>(task.runner->steps()), std::memory_order_relaxed);
  if (waiting && task.runner->waits_for() != StepRunner::kNobody) {
    std::atomic_ref(record->waiting_for).store(task.runner->waits_for(), std::memory_order_relaxed);
  }
}

}  // namespace neuron::ccom
