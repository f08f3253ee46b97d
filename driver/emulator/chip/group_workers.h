// SPDX-License-Identifier: Apache-2.0
// The worker pool: threads for execution groups that no caller runs inline.
//
// Concepts: after wake(core), the group of that core runs soon, in slices, until it is quiescent.
// Callers: any thread; wake never waits for a group. Thread-safe: yes. Owns: its threads, at most
// `limit`, none before the first wake. The destructor waits for slices in progress and joins the
// threads. Fails: if the host cannot create a thread, the group stays runnable until a caller runs
// it inline.
#ifndef DRIVER_EMULATOR_CHIP_GROUP_WORKERS_H
#define DRIVER_EMULATOR_CHIP_GROUP_WORKERS_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "driver/emulator/chip/chip.h"

namespace neuron::chip {

class GroupWorkers {
 public:
  using Run = std::function<RunResult(unsigned core, std::chrono::steady_clock::time_point)>;

  GroupWorkers(unsigned limit, Run run) : limit_(limit), run_(std::move(run)) {}
  ~GroupWorkers();
  GroupWorkers(const GroupWorkers&) = delete;
  GroupWorkers& operator=(const GroupWorkers&) = delete;

  void wake(unsigned core);
  unsigned threads() const;

 private:
  void work();

  const unsigned limit_;
  const Run run_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  uint64_t waiting_ = 0;  // bit per core
  uint64_t running_ = 0;
  unsigned idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace neuron::chip

#endif
