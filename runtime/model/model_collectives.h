// SPDX-License-Identifier: Apache-2.0
//
// The interface through which a loaded model and its executions use the model's collectives.
// CollectivePrograms (folder collectives) implements it and is given to the model once the ranks
// have met.
// Callers: LoadedModel (start), executor, fault reports. Thread-safe: the callers hold the core's
// turn; broken() in any thread.
#ifndef RUNTIME_MODEL_MODEL_COLLECTIVES_H
#define RUNTIME_MODEL_MODEL_COLLECTIVES_H

#include <optional>
#include <string>

#include "runtime/base/error.h"
#include "runtime/device/core_launch.h"
#include "runtime/model/stream_facts.h"

namespace neuron::runtime {

class ModelCollectives : public RankWatch {
 public:
  // Gives the queues their rings and starts the CC cores; the core is halted.
  virtual Result<void> start() = 0;
  // "rank 3 waits in all_reduce ... (2 of 5) for data of rank 7": what the CC cores do now. CC
  // cores that do not wait are left out. `busy`: a CC core is inside a collective.
  virtual std::string describe(bool& busy) const = 0;
  // Of each CC core that the model uses.
  virtual std::vector<StreamFacts> facts() const = 0;
  // To be called after a failure of any program on this core: the ranks no longer agree about
  // credits. Ranks that wait for this one are told why.
  virtual void give_up(const std::string& sentence) = 0;
  // Why this rank waits in vain: the failure of another rank since they connected; absent: none has
  // failed.
  virtual std::optional<std::string> failure_of_rank() const = 0;
  // Fails if the process of a rank is known to be gone, and names it.
  virtual Result<void> check_peers() const = 0;
  // "rank 3 (process 71 on HOST) is stopped by a signal"; "": none that this process sees.
  virtual std::string stopped_ranks() const = 0;
  // Whether it sees the processes of all ranks.
  virtual bool sees_all_processes() const = 0;
  bool lost_a_rank() const final { return failure_of_rank() || !check_peers(); }
  // True if the collectives can no longer be executed; the model must be loaded again.
  virtual bool broken() const = 0;
};

}  // namespace neuron::runtime

#endif
