// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/rank_threads.h"

#include <thread>

namespace neuron::digits {

bool RankThreads::keep(Trainer& trainer, unsigned epoch) {
  std::vector<uint8_t> weights;
  if (!trainer.weights(weights)) return false;
  const std::lock_guard lock(mutex_);
  (*checkpoints_)[epoch] = std::move(weights);
  while (checkpoints_->size() > 2) checkpoints_->erase(checkpoints_->begin());
  return true;
}

void RankThreads::run(const RankPlan& plan, uint32_t core, std::span<const Digit> digits) {
  Trainer trainer;
  const uint32_t rank = plan.first_rank + core;
  const bool first_of_process = core == 0;
  const auto work = [&] {
    if (!trainer.load("the step of rank " + std::to_string(rank), plan.neff,
                      {static_cast<int32_t>(core), rank, plan.ranks})) {
      return false;
    }
    unsigned epoch = start_;
    if (!first_weights_.empty() && !trainer.set_weights(first_weights_)) return false;
    if (first_of_process && epoch == 0 && !keep(trainer, 0)) return false;
    while (epoch < plan.epochs) {
      if (!trainer.train_epoch(digits, epoch, plan.rate)) return false;
      ++epoch;
      if (!first_of_process) continue;
      if (!keep(trainer, epoch)) return false;
      if (plan.on_epoch) plan.on_epoch(epoch);
    }
    return true;
  };
  const bool good = work();
  const std::lock_guard lock(mutex_);
  if (good && first_of_process) step_ps_ = trainer.step_ps();
  if (!good && error_.empty()) error_ = trainer.error();
}

bool RankThreads::train(const RankPlan& plan, std::span<const Digit> digits,
                        Checkpoints& checkpoints) {
  checkpoints_ = &checkpoints;
  error_.clear();
  start_ = checkpoints.empty() ? 0 : checkpoints.rbegin()->first;
  first_weights_ = checkpoints.empty() ? std::vector<uint8_t>() : checkpoints.rbegin()->second;
  std::vector<std::thread> threads;
  for (uint32_t core = 0; core < plan.cores; ++core) {
    threads.emplace_back([&, core] { run(plan, core, digits); });
  }
  for (std::thread& thread : threads) thread.join();
  return error_.empty();
}

}  // namespace neuron::digits
