// SPDX-License-Identifier: Apache-2.0
// A schedule whose steps are written out, so that tests can spoil them.
#ifndef TESTS_UNIT_CCOM_PROOF_WRITTEN_SCHEDULE_H
#define TESTS_UNIT_CCOM_PROOF_WRITTEN_SCHEDULE_H

#include <algorithm>
#include <vector>

#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

class WrittenProgram final : public Program {
 public:
  explicit WrittenProgram(const std::vector<Step>& steps) : steps_(steps) {}
  bool next(Step& step) override {
    if (at_ == steps_.size()) return false;
    step = steps_[at_++];
    return true;
  }

 private:
  const std::vector<Step>& steps_;
  size_t at_ = 0;
};

class WrittenSchedule final : public Schedule {
 public:
  explicit WrittenSchedule(const Schedule& from) : channels_(from.channels()) {
    type = from.type;
    reduction = from.reduction;
    for (Rank rank = 0; rank < from.ranks(); ++rank) {
      input.push_back(from.input_bytes(rank));
      output.push_back(from.output_bytes(rank));
      scratch.push_back(from.scratch_bytes(rank));
      auto& lanes = steps.emplace_back(channels_);
      for (uint32_t channel = 0; channel < channels_; ++channel) {
        const auto program = from.program(rank, channel);
        for (Step step; program->next(step); step = Step{}) lanes[channel].push_back(step);
      }
    }
  }

  uint32_t ranks() const override { return static_cast<uint32_t>(steps.size()); }
  uint32_t channels() const override { return channels_; }
  std::unique_ptr<Program> program(Rank rank, uint32_t channel) const override {
    return std::make_unique<WrittenProgram>(steps[rank][channel]);
  }
  uint64_t input_bytes(Rank rank) const override { return input[rank]; }
  uint64_t output_bytes(Rank rank) const override { return output[rank]; }
  uint64_t scratch_bytes(Rank rank) const override { return scratch[rank]; }

  std::vector<std::vector<std::vector<Step>>> steps;  // by rank, channel
  std::vector<uint64_t> input, output, scratch;

 private:
  uint32_t channels_;
};

// The same all-gather, in which the first copy of each rank is a duplicate whose second result, in
// scratch memory, is what the rank then sends. Planners emit none: no rank has one source for two
// places of its own. How many sends there are.
inline uint32_t send_duplicates(WrittenSchedule& schedule) {
  uint32_t sends = 0;
  for (Rank rank = 0; rank < schedule.ranks(); ++rank) {
    for (auto& steps : schedule.steps[rank]) {
      const auto copy = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
        return step.kind == StepKind::kCopy && step.bytes != 0;
      });
      if (copy == steps.end()) continue;
      Step both = *copy;
      both.kind = StepKind::kDuplicate;
      both.second = {Buffer::kScratch, schedule.scratch[rank]};
      schedule.scratch[rank] += both.bytes;
      std::rotate(steps.begin(), copy, copy + 1);
      steps.front() = both;
      for (Step& step : steps) {
        if (step.kind != StepKind::kSend || step.bytes != both.bytes) continue;
        if (step.source == both.source || step.source == both.destination) {
          step.source = both.second;
          ++sends;
        }
      }
    }
  }
  return sends;
}

}  // namespace neuron::ccom

#endif
