// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/timeline.h"

#include <algorithm>

namespace neuron::profile {
namespace {

class Collector final : public Visitor {
 public:
  Collector(Timeline& timeline, size_t most) : timeline_(timeline), most_(most) {}

  void instruction(const InstructionEvent& e) override {
    keep(timeline_.instructions[e.engine], e);
  }
  void transfer(const TransferEvent& e) override {
    keep(timeline_.transfers[e.dma_engine % kDmaEngines], e);
  }
  void stream_instruction(const StreamEvent& e) override { keep(timeline_.streams[e.stream], e); }
  void update(const UpdateEvent& e) override { keep(timeline_.updates[e.cell], e); }

 private:
  // All lists share the room. When it is full, what lies before the middle of the newest times
  // goes, from every list.
  template <class Event>
  void keep(std::vector<Event>& list, const Event& event) {
    if (kept_ >= most_) forget_the_older_half();
    newest_ = std::max(newest_, time_of(event));
    if (time_of(event) < forgotten_) return;
    list.push_back(event);
    ++kept_;
  }

  static uint64_t time_of(const InstructionEvent& e) { return e.end; }
  static uint64_t time_of(const StreamEvent& e) { return e.end; }
  static uint64_t time_of(const TransferEvent& e) { return e.end; }
  static uint64_t time_of(const UpdateEvent& e) { return e.time; }

  void forget_the_older_half() {
    timeline_.whole = false;
    // bounded: each turn halves what is left of the time; at one picosecond everything goes.
    while (kept_ > most_ / 2) {
      const uint64_t left = newest_ - std::min(forgotten_, newest_);
      forgotten_ = left <= 1 ? newest_ + 1 : forgotten_ + (left + 1) / 2;
      kept_ = 0;
      const auto trim = [&](auto& list) {
        std::erase_if(list, [&](const auto& event) { return time_of(event) < forgotten_; });
        kept_ += list.size();
      };
      for (auto& list : timeline_.instructions) trim(list);
      for (auto& list : timeline_.transfers) trim(list);
      for (auto& list : timeline_.streams) trim(list);
      for (auto& [cell, list] : timeline_.updates) trim(list);
    }
  }

  size_t kept_ = 0;
  uint64_t newest_ = 0;
  uint64_t forgotten_ = 0;  // what is older is not kept
  Timeline& timeline_;
  const size_t most_;
};

}  // namespace

Result<Timeline> Timeline::read(Profile& profile, uint32_t part, size_t execution, size_t most) {
  Timeline timeline;
  Collector collector(timeline, most);
  NEURON_CHECK(profile.visit(part, execution, collector));
  const auto by_end = [](const auto& a, const auto& b) { return a.end < b.end; };
  for (auto& list : timeline.transfers) std::stable_sort(list.begin(), list.end(), by_end);
  for (auto& [cell, list] : timeline.updates) {
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
  }
  return timeline;
}

}  // namespace neuron::profile
