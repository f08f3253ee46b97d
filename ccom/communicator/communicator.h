// SPDX-License-Identifier: Apache-2.0
// One rank of a communicator: bootstrap, arena, planner, executor, and what is under way.
//
// Concepts: a lane is a stream of this rank. It remembers its last call, so that a repeated one
// goes straight to the executor. Operations of a lane run in order; those that were started wait
// their turn. The first failure that ranks cannot continue from is kept, told to all ranks, and
// returned by every later call. Threads: one at a time, except abort(), dump(), status(), tell()
// and told(). Owns: everything but buffers outside the arena. Fails: status and sentence.
#ifndef CCOM_COMMUNICATOR_COMMUNICATOR_H
#define CCOM_COMMUNICATOR_COMMUNICATOR_H

#include <ccom/ccom.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/communicator/environment.h"
#include "ccom/communicator/heap.h"
#include "ccom/flight/flight_recorder.h"
#include "ccom/plan/plan_cache.h"
#include "ccom/plan/planner.h"
#include "ccom/progress/executor.h"
#include "ccom/request/arguments.h"

namespace neuron::ccom {

class Communicator;

// An operation that was started: waits for its turn, runs, or is over.
struct Started {
  Communicator* owner = nullptr;  // null: the communicator was freed
  uint32_t stream = 0;
  std::shared_ptr<const Plan> plan;
  Operands operands;
  Signature signature;
  std::chrono::milliseconds timeout{0};
  std::unique_ptr<Execution> execution;  // null: its turn has not come
  FlightRecord* record = nullptr;
  bool over = false;
  Error error;  // of an operation that is over
  ccom_status_t status = CCOM_SUCCESS;

  ~Started();  // leaves its lane
};

class Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> make(std::unique_ptr<Bootstrap> bootstrap,
                                                    const Settings& settings);
  ~Communicator();

  Rank rank() const { return rank_; }
  uint32_t size() const { return size_; }
  ccom_status_t status() const {
    // Pairs with the release of note_failure().
    return static_cast<ccom_status_t>(interrupted_.load(std::memory_order_acquire));
  }

  Result<void> run(const ccom_collective_t& call) {
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
  // CCOM_IN_PROGRESS, or how it ended with its sentence in `error`.
  static ccom_status_t test(Started& started, Error& error);
  static ccom_status_t wait(Started& started, Error& error);

  Result<void*> allocate(size_t bytes);
  Result<void> release(void* memory);

  Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key);  // null: no color
  Result<std::unique_ptr<Communicator>> shrink();
  void abort(const std::string& why);
  void tell(uint64_t number, const std::string& sentence) { bootstrap_->tell(number, sentence); }
  std::optional<Notice> told(uint64_t since) const { return bootstrap_->told(since); }
  Result<std::string> explain(const ccom_collective_t& call);
  std::string json() const;
  Result<void> dump(const std::string& path) const;
  // The process has forked: nothing of the parent is touched.
  void forget();

 private:
  struct Lane {
    ccom_collective_t key{};
    bool known = false;
    std::shared_ptr<const Plan> plan;
    Signature signature;
    Extents extents;
    std::chrono::milliseconds timeout{0};
    uint64_t next = 0;  // number of the next operation
    std::deque<Started*> pending;

    bool same(const ccom_collective_t& call) const;
  };

  Communicator(std::unique_ptr<Bootstrap> bootstrap, const Settings& settings);

  Result<void> set_up(base::Deadline deadline);
  Result<void> run_lane(Lane& lane, const Operands& operands);
  // The same while something is under way on other streams: that goes on meanwhile.
  Result<void> run_among_started(Lane& lane, const Operands& operands);
  Result<void> run_new(const ccom_collective_t& call);
  // Checks the call, plans it, and makes it the lane's last call.
  Result<void> prepare(Lane& lane, const ccom_collective_t& call);
  Result<void> exchange_counts(Lane& lane, const ccom_collective_t& call, Request& request);
  Result<void> usable();
  uint32_t dump_number() const;
  // Writes the flight recorder where CCOM_DUMP_PATH says, once after a failure.
  void dump_failure();
  // Runs what was started before; returns the failure that ended it.
  Result<void> drain(Lane& lane);
  std::unique_ptr<Started> enqueue(Lane& lane, const Operands& operands);
  void advance(Lane& lane);
  void advance_all();
  friend struct Started;
  void finish(Lane& lane, Started& started, ccom_status_t status, Error error);
  void note_failure(const Error& error);
  // A failure of this rank that ends the communicator: told to all.
  Error give_up(const Signature& signature, Error error);
  Error failure() const;

  Settings settings_;
  Rank rank_;
  uint32_t size_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::unique_ptr<Heap> heap_;
  std::byte* heap_at_ = nullptr;
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<PlanCache> plans_;
  std::array<std::atomic<FlightRecord*>, CCOM_MAX_STREAMS> records_{};
  std::array<Lane, CCOM_MAX_STREAMS> lanes_;
  size_t started_ = 0;  // pending, of all lanes
  mutable std::mutex failure_mutex_;
  Error failure_;
  bool dumped_ = false;
  mutable uint32_t dump_number_ = 0;      // of this rank's dumps in a folder; 0: none yet
  std::atomic<uint32_t> interrupted_{0};  // ccom_status_t of failure_
  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<Executor> executor_;  // destroyed first
};

}  // namespace neuron::ccom

#endif
