// SPDX-License-Identifier: Apache-2.0
//
// What a loaded model and its executions need to know of its collectives. The folder collectives
// implements it (CollectivePrograms) and gives it to the model once the ranks have met.
// Callers: LoadedModel (start), executor, fault reports. Thread-safe: the callers hold the core's
// turn; broken() in any thread.
#ifndef RUNTIME_MODEL_MODEL_COLLECTIVES_H
#define RUNTIME_MODEL_MODEL_COLLECTIVES_H

#include <optional>
#include <string>

#include "runtime/base/error.h"
#include "runtime/device/core_launch.h"

namespace neuron::runtime {

class ModelCollectives : public RankWatch {
 public:
  // Gives the queues their rings and starts the CC cores; the core is halted.
  virtual Result<void> start() = 0;
  // "rank 3 waits in all_reduce ... (2 of 5) for data of rank 7": what the CC cores do now. Those
  // that wait for nothing are left out. `busy`: one of them is inside a collective.
  virtual std::string describe(bool& busy) const = 0;
  // After a failure on this core, of any program: the ranks do not agree about credits any more,
  // and those that wait for this rank are told why.
  virtual void give_up(const std::string& sentence) = 0;
  // Why this rank waits in vain: another one has failed since it was connected; absent: none has.
  virtual std::optional<std::string> failure_of_rank() const = 0;
  // Whether the processes of all ranks are there, as far as is known now; else which one is not.
  virtual Result<void> check_peers() const = 0;
  bool lost_a_rank() const final { return failure_of_rank() || !check_peers(); }
  // The collectives cannot be executed any more; the model must be loaded again.
  virtual bool broken() const = 0;
};

}  // namespace neuron::runtime

#endif
