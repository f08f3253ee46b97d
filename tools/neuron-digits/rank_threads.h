// SPDX-License-Identifier: Apache-2.0
// The ranks of one process in a training job: a thread and a core each. All ranks of the job add up
// their gradients on the devices in every step, so all have the same weights.
//
// Callers: the parallel training, between nrt_init and nrt_close. Owns models and tensors; all are
// gone when train() returns. The same ranks, digits and epochs give the same weights, bit for bit,
// where the algorithm of the reduction does. Fails: false and the sentence of the rank that failed
// first.
#ifndef TOOLS_NEURON_DIGITS_RANK_THREADS_H
#define TOOLS_NEURON_DIGITS_RANK_THREADS_H

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tools/neuron-digits/trainer.h"

namespace neuron::digits {

// Weights by the number of epochs that they have seen: the last two, since ranks are at most one
// epoch apart when one of them fails.
using Checkpoints = std::map<unsigned, std::vector<uint8_t>>;

struct RankPlan {
  uint32_t first_rank = 0;  // of this process
  uint32_t cores = 1;       // ranks of this process
  uint32_t ranks = 1;       // of the job
  unsigned epochs = 1;
  float rate = 0;
  std::span<const uint8_t> neff;
  std::function<void(unsigned)> on_epoch;  // after each, from one of the threads
};

class RankThreads {
 public:
  // Goes on from the newest of the checkpoints, if there are any, up to the last epoch.
  bool train(const RankPlan& plan, std::span<const Digit> digits, Checkpoints& checkpoints);
  uint64_t step_ps() const { return step_ps_; }
  const std::string& error() const { return error_; }

 private:
  void run(const RankPlan& plan, uint32_t core, std::span<const Digit> digits);
  bool keep(Trainer& trainer, unsigned epoch);

  std::mutex mutex_;
  Checkpoints* checkpoints_ = nullptr;  // mutex_
  std::string error_;                   // likewise
  uint64_t step_ps_ = 0;
  // What all ranks of the process begin with: an epoch, and the weights unless it is the first.
  unsigned start_ = 0;
  std::vector<uint8_t> first_weights_;
};

}  // namespace neuron::digits

#endif
