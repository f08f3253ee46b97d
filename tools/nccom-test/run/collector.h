// SPDX-License-Identifier: Apache-2.0
// Collects the messages of ranks step by step, and names the missing ranks when a step takes too
// long.
//
// Concepts: a step is complete when every rank has reported its part of every block; blocks of rows
// come out in the order of the job. Callers: put() by any thread (it locks), the rest by one
// thread. Fails: a step that does not become complete in time is a failure row that names the ranks
// and what each was doing.
#ifndef TOOLS_NCCOM_TEST_RUN_COLLECTOR_H
#define TOOLS_NCCOM_TEST_RUN_COLLECTOR_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tools/nccom-test/output/row.h"
#include "tools/nccom-test/run/job.h"
#include "tools/nccom-test/run/message.h"

namespace neuron::nccom {

class Collector {
 public:
  using Clock = std::chrono::steady_clock;

  Collector(const Job& job, uint32_t ranks);

  void put(const Message& message);
  // Reports a process that ended without a last message of its rank.
  void lost(uint32_t rank, const std::string& why);

  enum class State : uint8_t { kRunning, kDone, kBroken };
  State state() const;
  // Whether every rank is through, has failed or is lost.
  bool all_ended() const;
  // Waits for the next change, at most until `until`.
  State wait_until(Clock::time_point until);
  // Of any rank: a message, an operation of a measurement.
  Clock::time_point last_progress() const;
  // Operations have ended that no message tells of.
  void get_on();
  // "rank 3: measuring all_reduce 1024 B; ..." of the ranks that the others wait for.
  std::string missing() const;
  // Ends the run: the step under way is a failure with this sentence.
  void give_up(const std::string& sentence);

  size_t completed_steps() const;
  size_t steps() const;
  // Rows so far, except those of the heat map.
  std::vector<Block> blocks() const;
  // Messages that came after the run had failed. What several ranks say word for word is one, with
  // their numbers: "... (said by ranks 0, 1 and 3 to 7)".
  std::vector<std::string> notes() const;
  // Mean time by [source][target], microseconds; empty without a heat map. `bytes`: of a message.
  std::vector<std::vector<double>> pair_times(uint64_t& bytes) const;

 private:
  struct Cell {  // one block of one step
    Row row;
    std::vector<bool> told;  // by rank
    uint32_t outstanding = 0;
    bool failed = false;  // by the failure of the run
  };
  // A sentence, and the ranks that it is of. `of_ranks`: it begins with them.
  struct Told {
    std::string text;
    bool of_ranks = false;
    std::vector<uint32_t> ranks = {};
    std::string sentence() const;
  };
  struct RankState {
    size_t position = 0;  // phase and step, counted through
    std::string doing = "starting";
    bool ended = false;
  };

  Cell& cell(const Message& message);
  bool known(const Message& message) const;
  std::string missing_locked() const;
  void fail_locked(Told told);
  void count_completed();

  const Job& job_;
  const uint32_t ranks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::vector<Cell>>> cells_;  // phase, step, block
  std::vector<size_t> first_step_;                     // of each phase
  std::vector<RankState> rank_states_;
  Told first_;  // the failure of the step under way
  std::vector<Told> notes_;
  size_t completed_ = 0, ended_ = 0;
  State state_ = State::kRunning;
  Clock::time_point progress_ = Clock::now();
  uint64_t changes_ = 0;
};

}  // namespace neuron::nccom

#endif
