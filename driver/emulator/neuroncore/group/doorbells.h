// SPDX-License-Identifier: Apache-2.0
// Which instruction rang for which descriptors of a queue, for the trace of transfers.
//
// Concepts: a queue may hold descriptors of several doorbells at once. Each doorbell owns those
// that lie behind the descriptors of the doorbells before it. A packet belongs to the oldest
// doorbell that has descriptors left. Callers: DmaActors, only while transfers are traced.
// Thread-safe: no; the group's thread. Cannot fail: descriptors that were rung for before tracing
// began have no owner, or that of the next doorbell.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_DOORBELLS_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_DOORBELLS_H

#include <algorithm>
#include <cstdint>
#include <deque>

namespace neuron::core {

template <class Owner>
class Doorbells {
 public:
  // A doorbell, after which `pending` descriptors of the queue are not transferred yet.
  void ring(uint32_t pending, const Owner& owner) {
    if (pending <= left_) return;
    waiting_.push_back({pending - left_, owner});
    left_ = pending;
  }
  // Null: not known.
  const Owner* oldest() const { return waiting_.empty() ? nullptr : &waiting_.front().owner; }
  // So many descriptors of the queue have been transferred.
  void transferred(uint32_t descriptors) {
    left_ -= std::min(left_, descriptors);
    while (!waiting_.empty() && descriptors != 0) {
      const uint32_t taken = std::min(descriptors, waiting_.front().descriptors);
      waiting_.front().descriptors -= taken;
      descriptors -= taken;
      if (waiting_.front().descriptors == 0) waiting_.pop_front();
    }
  }
  void clear() {
    waiting_.clear();
    left_ = 0;
  }

 private:
  struct Doorbell {
    uint32_t descriptors = 0;
    Owner owner;
  };
  std::deque<Doorbell> waiting_;  // the oldest first
  uint32_t left_ = 0;             // descriptors of all
};

}  // namespace neuron::core

#endif
