// SPDX-License-Identifier: Apache-2.0
#include "ccom/schedule/recipe.h"

namespace neuron::ccom {
namespace {

class RecipeProgram final : public Program {
 public:
  RecipeProgram(const Recipe& recipe, Rank rank, uint32_t channel)
      : recipe_(recipe), rank_(rank), channel_(channel) {}

  bool next(Step& step) override {
    while (position_ == script_.steps().size()) {
      script_.steps().clear();
      position_ = 0;
      if (!recipe_.emit(rank_, channel_, index_, script_)) return false;
      ++index_;
    }
    step = script_.steps()[position_++];
    return true;
  }

  // A part is written into a script that all programs of the thread share, and kept as work, which
  // takes an eighth of the memory of steps.
  bool next_work(StepWork& work) override {
    while (position_ == works_.size()) {
      static thread_local Script shared;
      shared.steps().clear();
      works_.clear();
      position_ = 0;
      if (!recipe_.emit(rank_, channel_, index_, shared)) return false;
      ++index_;
      works_.reserve(shared.steps().size());
      for (const Step& step : shared.steps()) works_.emplace_back(step);
    }
    work = works_[position_++];
    return true;
  }

  uint64_t memory_bytes() const override {
    return sizeof(*this) + script_.steps().capacity() * sizeof(Step) +
           works_.capacity() * sizeof(StepWork);
  }

 private:
  const Recipe& recipe_;
  Rank rank_;
  uint32_t channel_;
  uint64_t index_ = 0;
  size_t position_ = 0;
  Script script_;
  std::vector<StepWork> works_;  // in the place of script_ where next_work() is called
};

}  // namespace

std::unique_ptr<Program> Recipe::program(Rank rank, uint32_t channel) const {
  return std::make_unique<RecipeProgram>(*this, rank, channel);
}

void Script::send(Rank peer, const Slice& source, uint64_t bytes) {
  Step& step = steps_.emplace_back();
  step.kind = StepKind::kSend;
  step.peer = peer;
  step.source = source;
  step.bytes = bytes;
}

void Script::receive(Rank peer, const Slice& destination, uint64_t bytes) {
  Step& step = steps_.emplace_back();
  step.kind = StepKind::kReceive;
  step.peer = peer;
  step.destination = destination;
  step.bytes = bytes;
}

void Script::copy(const Slice& source, const Slice& destination, uint64_t bytes) {
  if (bytes == 0 || source == destination) return;
  Step& step = steps_.emplace_back();
  step.kind = StepKind::kCopy;
  step.source = source;
  step.destination = destination;
  step.bytes = bytes;
}

void Script::duplicate(const Slice& source, const Slice& destination, const Slice& second,
                       uint64_t bytes) {
  if (bytes == 0) return;
  Step& step = steps_.emplace_back();
  step.kind = StepKind::kDuplicate;
  step.source = source;
  step.destination = destination;
  step.second = second;
  step.bytes = bytes;
}

void Script::wait(uint32_t channel, uint64_t position) {
  Step& step = steps_.emplace_back();
  step.kind = StepKind::kWait;
  step.channel = static_cast<uint16_t>(channel);
  step.position = position;
}

void Script::reduce(const Reduction& reduction) {
  if (reduction.bytes == 0) return;
  if (reduction.count + (reduction.has_own ? 1 : 0) == 1) {
    copy(reduction.has_own ? reduction.own : reduction.source, reduction.destination,
         reduction.bytes);
    return;
  }
  Step& step = steps_.emplace_back();
  step.kind = StepKind::kReduce;
  step.has_own = reduction.has_own;
  step.complete = reduction.complete;
  step.count = reduction.count;
  step.own_index = reduction.own_index;
  step.bytes = reduction.bytes;
  step.source = reduction.source;
  step.destination = reduction.destination;
  step.second = reduction.own;
  step.stride = reduction.stride;
  step.vector_offset = reduction.vector_offset;
}

}  // namespace neuron::ccom
