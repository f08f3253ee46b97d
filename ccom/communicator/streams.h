// SPDX-License-Identifier: Apache-2.0
// The streams of one rank: which operation runs, which ones wait for their turn, and how they end.
//
// Concepts: a stream remembers its last call, so that a repeated one goes straight to the executor.
// Operations of a stream run in order; those that were started wait for their turn. Operations of
// several streams go on together; launched ones go on
// by themselves. A failure is kept in FirstFailure and reported to all ranks.
// Threads: one at a time. Owns: the executor and the plans. Fails: status and sentence.
#ifndef CCOM_COMMUNICATOR_STREAMS_H
#define CCOM_COMMUNICATOR_STREAMS_H

#include <ccom/ccom.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ccom/communicator/dump.h"
#include "ccom/communicator/first_failure.h"
#include "ccom/communicator/launcher.h"
#include "ccom/plan/plan_cache.h"
#include "ccom/progress/executor.h"
#include "ccom/request/arguments.h"

namespace neuron::ccom {

class Streams;

// A started operation: it waits for its turn, runs, or is over.
struct Started {
  Streams* owner = nullptr;  // null: the communicator was freed
  uint32_t stream = 0;
  std::shared_ptr<const Plan> plan;
  Operands operands;
  Signature signature;
  std::chrono::milliseconds timeout{0};
  std::unique_ptr<Execution> execution;  // null: its turn has not come
  FlightRecord* record = nullptr;
  std::optional<ccom_completion_t> completion;  // launched: who is told of the end
  bool over = false;
  Error error;  // of an operation that is over
  ccom_status_t status = CCOM_SUCCESS;

  ~Started();  // leaves its stream
};

class Streams {
 public:
  using Records = std::array<std::atomic<FlightRecord*>, CCOM_MAX_STREAMS>;

  // `timeout`: for calls that give none. All arguments outlive this object.
  Streams(Bootstrap& bootstrap, const Planner& planner, FlightRecorder& recorder,
          FirstFailure& failure, FlightDump& dump, std::chrono::milliseconds timeout);
  ~Streams();

  // Called before the first operation. The executor notes its progress in records().
  void use(std::unique_ptr<Executor> executor) { executor_ = std::move(executor); }
  Records& records() { return records_; }

  Result<void> run(const ccom_collective_t& call) {
    const auto held = hold();
    if (call.stream < CCOM_MAX_STREAMS) {
      Lane& lane = lanes_[call.stream];
      if (lane.same(call) && lane.pending.empty()) {
        return run_lane(lane, {static_cast<const std::byte*>(call.input),
                               static_cast<std::byte*>(call.output)});
      }
    }
    return run_new(call);
  }
  Result<std::unique_ptr<Started>> start(const ccom_collective_t& call);
  // Starts an operation that this object carries to its end itself, and then tells `completion`.
  Result<void> launch(const ccom_collective_t& call, const ccom_completion_t& completion);
  // Tells the launched operations that are not over that they were aborted, and ends the thread.
  void end_launches();
  // CCOM_IN_PROGRESS, or the status at its end, with the sentence in `error`.
  static ccom_status_t test(Started& started, Error& error);
  static ccom_status_t wait(Started& started, Error& error);

  // Returns the failure that ended the communicator, after dumping the flight recorder, or says
  // that it is suspended.
  Result<void> usable();
  // Whether no operation is under way or waits for its turn.
  bool idle() {
    const auto held = hold();
    return started_ == 0;
  }
  // Refuses operations, and frees what the executor keeps for later ones.
  void suspend();
  void resume() { suspended_ = false; }
  bool suspended() const { return suspended_; }
  uint64_t working_memory() const { return executor_->working_memory(); }
  // The process has forked: touches nothing of the parent.
  void forget();

 private:
  struct Lane {
    ccom_collective_t key{};
    bool known = false;
    std::shared_ptr<const Plan> plan;
    Signature signature;
    BufferExtents extents;
    std::chrono::milliseconds timeout{0};
    uint64_t next = 0;  // number of the next operation
    std::deque<Started*> pending;

    bool same(const ccom_collective_t& call) const;
  };
  friend struct Started;

  // Holds the streams if there is a thread beside the caller's.
  std::unique_lock<std::recursive_mutex> hold() {
    return launcher_ ? launcher_->hold() : std::unique_lock<std::recursive_mutex>();
  }
  Result<void> run_lane(Lane& lane, const Operands& operands);
  // The same while operations on other streams are in flight; they also advance.
  Result<void> run_among_started(Lane& lane, const Operands& operands);
  Result<void> run_new(const ccom_collective_t& call);
  // Checks the call, plans it, and makes it the lane's last call.
  Result<void> prepare(Lane& lane, const ccom_collective_t& call);
  Result<void> exchange_counts(Lane& lane, const ccom_collective_t& call, Request& request);
  std::chrono::milliseconds timeout_of(const ccom_collective_t& call) const;

  // Runs the operations that were started before; returns the failure that ended the communicator.
  Result<void> drain(Lane& lane);
  std::unique_ptr<Started> enqueue(Lane& lane, const Operands& operands);
  // Checks the call and enqueues it.
  Result<std::unique_ptr<Started>> queue(const ccom_collective_t& call);
  void advance(Lane& lane);
  void advance_all();
  void finish(Lane& lane, Started& started, ccom_status_t status, Error error);
  // The launcher's thread was left by an exception: the communicator ends.
  void cannot_go_on(const char* what, bool memory_ran_out) noexcept;
  // Reports a failure of this rank that ends the communicator to all ranks.
  Error give_up(const Signature& signature, Error error);

  Bootstrap& bootstrap_;
  FlightRecorder& recorder_;
  FirstFailure& failure_;
  FlightDump& dump_;
  Rank rank_;
  uint32_t size_;
  std::chrono::milliseconds timeout_;
  PlanCache plans_;
  Records records_{};
  std::array<Lane, CCOM_MAX_STREAMS> lanes_;
  size_t started_ = 0;  // pending, of all lanes
  bool suspended_ = false;
  std::unique_ptr<Executor> executor_;
  std::vector<std::unique_ptr<Started>> launched_;
  std::unique_ptr<Launcher> launcher_;  // null: nothing was launched yet
};

}  // namespace neuron::ccom

#endif
