// SPDX-License-Identifier: Apache-2.0
// Schedules written as a function from (rank, channel, number) to a few steps at a time.
//
// Concepts: a recipe appends the steps of part `index` of a rank's channel to a Script. Parts are
// small (a round, a batch of peers), so a program holds one part and not the whole. Callers:
// algorithms of plan/. Thread-safe: emit() is const. Cannot fail.
#ifndef CCOM_SCHEDULE_RECIPE_H
#define CCOM_SCHEDULE_RECIPE_H

#include <cstdint>
#include <vector>

#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

class Script {
 public:
  void send(Rank peer, const Slice& source, uint64_t bytes);
  void receive(Rank peer, const Slice& destination, uint64_t bytes);
  // Appends nothing if there are no bytes, or if source and destination are the same.
  void copy(const Slice& source, const Slice& destination, uint64_t bytes);
  void duplicate(const Slice& source, const Slice& destination, const Slice& second,
                 uint64_t bytes);
  void wait(uint32_t channel, uint64_t position);
  // `count` operands from `source`; the caller adds `own` and the rest. Appends nothing without
  // bytes.
  struct Reduction {
    Slice source;
    uint32_t count = 0;
    uint64_t stride = 0;
    bool has_own = false;
    Slice own;
    uint32_t own_index = 0;
    Slice destination;
    uint64_t bytes = 0;
    bool complete = false;
    uint64_t vector_offset = 0;
  };
  void reduce(const Reduction& reduction);

  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

class Recipe : public Schedule {
 public:
  // Appends part `index`. After the last part it appends nothing and returns false. A part may be
  // empty.
  virtual bool emit(Rank rank, uint32_t channel, uint64_t index, Script& script) const = 0;
  std::unique_ptr<Program> program(Rank rank, uint32_t channel) const final;
};

inline Slice operator+(const Slice& slice, uint64_t bytes) {
  return {slice.buffer, slice.offset + bytes};
}

}  // namespace neuron::ccom

#endif
