// SPDX-License-Identifier: Apache-2.0
// The processors of nodes, which the lanes of their ranks share.
//
// Concepts: a lane keeps a processor until it waits for something else, as executors do that yield
// only when they are idle. Lanes that are ready queue for the processors of their node; who came
// first is served first. A lane goes on where it was last if that processor is free. A processor
// that changes from one lane to another loses the time of a switch. Callers: the engine of events.
// Thread-safe: no. Cannot fail.
#ifndef CCOM_SIMULATOR_PROCESSORS_H
#define CCOM_SIMULATOR_PROCESSORS_H

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace neuron::ccom {

class Processors {
 public:
  static constexpr uint32_t kNobody = UINT32_MAX;

  // `nodes`: of each lane. `of_node`: processors of each node; 0: lanes wait for none.
  Processors(std::vector<uint32_t> nodes, uint32_t of_node)
      : nodes_(std::move(nodes)), of_node_(of_node) {
    if (of_node_ == 0) return;
    uint32_t most = 0;
    for (const uint32_t node : nodes_) most = node > most ? node : most;
    ready_.resize(uint64_t{most} + 1);
    units_.resize(ready_.size() * of_node_);
    held_.assign(nodes_.size(), kNobody);
    last_.assign(nodes_.size(), 0);
  }

  bool shared() const { return of_node_ != 0; }
  bool holds(uint32_t lane) const { return held_[lane] != kNobody; }

  enum class Given : uint8_t { kAtOnce, kAfterASwitch, kLater };
  // Gives a processor to a lane that holds none. kLater: release() will name it.
  Given acquire(uint32_t lane) {
    const uint32_t first = nodes_[lane] * of_node_;
    uint32_t unit = first + last_[lane];
    for (uint32_t i = 0; units_[unit].holder != kNobody; ++i) {
      if (i == of_node_) {
        ready_[nodes_[lane]].push_back(lane);
        return Given::kLater;
      }
      unit = first + i;
    }
    return give(unit, lane) ? Given::kAfterASwitch : Given::kAtOnce;
  }
  // Takes the processor of a lane away, and gives it to the lane that waits longest for one, which
  // it returns: it goes on after a switch. kNobody: none waits.
  uint32_t release(uint32_t lane) {
    const uint32_t unit = std::exchange(held_[lane], kNobody);
    units_[unit].holder = kNobody;
    auto& ready = ready_[nodes_[lane]];
    if (ready.empty()) return kNobody;
    const uint32_t next = ready.front();
    ready.pop_front();
    give(unit, next);
    return next;
  }

 private:
  struct Unit {
    uint32_t holder = kNobody;
    uint32_t last = kNobody;
  };

  // True: the processor served another lane before.
  bool give(uint32_t unit, uint32_t lane) {
    held_[lane] = unit;
    last_[lane] = unit % of_node_;
    units_[unit].holder = lane;
    const uint32_t before = std::exchange(units_[unit].last, lane);
    return before != lane && before != kNobody;
  }

  std::vector<uint32_t> nodes_;
  uint32_t of_node_;
  std::vector<Unit> units_;
  std::vector<std::deque<uint32_t>> ready_;  // by node
  std::vector<uint32_t> held_;               // by lane: its processor
  std::vector<uint32_t> last_;               // by lane: the one of its node that it had last
};

}  // namespace neuron::ccom

#endif
