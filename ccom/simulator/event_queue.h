// SPDX-License-Identifier: Apache-2.0
// Events in the order of time, and of insertion among equal times: a 4-ary heap.
//
// Callers: the engine of events. Thread-safe: no. Cannot fail, except for lack of memory.
#ifndef CCOM_SIMULATOR_EVENT_QUEUE_H
#define CCOM_SIMULATOR_EVENT_QUEUE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neuron::ccom {

class EventQueue {
 public:
  struct Event {
    uint64_t time = 0;
    uint64_t sequence = 0;
    uint32_t lane = 0;

    bool before(const Event& other) const {
      return time != other.time ? time < other.time : sequence < other.sequence;
    }
  };

  bool empty() const { return heap_.empty(); }
  const Event& first() const { return heap_.front(); }

  void push(uint64_t time, uint32_t lane) {
    const Event event{time, sequence_++, lane};
    size_t at = heap_.size();
    heap_.push_back(event);
    while (at != 0) {
      const size_t parent = (at - 1) / kBranches;
      if (!event.before(heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  void pop() {
    const Event event = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
    size_t at = 0;
    for (;;) {  // bounded: down to a leaf
      const size_t begin = at * kBranches + 1;
      if (begin >= heap_.size()) break;
      size_t least = begin;
      const size_t end = std::min(begin + kBranches, heap_.size());
      for (size_t child = begin + 1; child < end; ++child) {
        if (heap_[child].before(heap_[least])) least = child;
      }
      if (!heap_[least].before(event)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = event;
  }

 private:
  static constexpr size_t kBranches = 4;
  std::vector<Event> heap_;
  uint64_t sequence_ = 0;
};

}  // namespace neuron::ccom

#endif
