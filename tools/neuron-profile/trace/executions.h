// SPDX-License-Identifier: Apache-2.0
//
// The executions of one physical core in a profile, of which there may be millions that repeat what
// an earlier one did: each takes about ten bytes, and only those with events of their own are kept
// as they are. Callers: Profile, everything that shows a profile. One thread: reading moves a
// cursor. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_TRACE_EXECUTIONS_H
#define TOOLS_NEURON_PROFILE_TRACE_EXECUTIONS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace neuron::profile {

struct Execution {
  uint64_t exec_id = 0;
  bool failed = false;
  uint64_t begin_ns = 0, end_ns = 0;  // host time, since the epoch
  uint64_t device_ps = 0;
  uint64_t lost = 0;  // events, since the profile began
  uint64_t multiply_accumulates = 0, dma_bytes = 0, link_bytes = 0;
  // Index of the execution of the part whose events it has: its own, or the same.
  size_t events = 0;
};

class Executions {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // One behind the other is quick; any other one takes a few dozen steps.
  Execution operator[](size_t n) const;

  // One with events of its own.
  void add(const Execution& execution);
  // One that did what `earlier` did, which is below size(), at another time.
  void add_same(size_t earlier, const Execution& times);

 private:
  static constexpr size_t kOfBlock = 64;
  // What the next record of a block adds to.
  struct State {
    uint64_t exec_id = 0, end_ns = 0, kind = 0;
  };
  // Differences to the execution before, as numbers of variable length.
  struct Block {
    State before;
    std::vector<uint8_t> bytes;
  };
  struct Cursor {
    size_t block = SIZE_MAX, next = 0, at = 0;  // the byte of the block
    State state;
  };
  void record(uint64_t kind, const Execution& times);
  uint64_t kind_of(size_t n) const;

  std::vector<Execution> kinds_;
  std::vector<Block> blocks_;
  State last_;
  size_t size_ = 0;
  mutable Cursor cursor_;
};

}  // namespace neuron::profile

#endif
