// SPDX-License-Identifier: Apache-2.0
// Finds bytes that several channels of a rank use without waits that order the accesses.
//
// Concepts: each channel knows how many steps of each other channel are done. It knows this from
// its own waits, and from the knowledge of the channels that it waited for. When a channel writes
// bytes that another one uses, one of the two must know the other's step. Callers: the checker.
// Threads: one. Cannot fail.
#ifndef CCOM_PROOF_OVERLAPS_H
#define CCOM_PROOF_OVERLAPS_H

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace neuron::ccom {

class ChannelOrder {
 public:
  explicit ChannelOrder(uint32_t channels);
  // `channel` has waited until the first `position` steps of `other` are done.
  void wait(uint32_t channel, uint64_t at, uint32_t other, uint64_t position);
  bool knows(uint32_t channel, uint32_t other, uint64_t position) const {
    return channel == other || known_[channel][other] > position;
  }

 private:
  using Clock = std::vector<uint64_t>;
  std::vector<Clock> known_;
  std::vector<std::vector<std::pair<uint64_t, Clock>>>
      history_;  // step of the wait, and the clock after it
};

class Overlaps {
 public:
  // Notes an access; false: step `step` of channel `other` conflicts with it.
  bool note(uint64_t begin, uint64_t end, uint32_t channel, uint64_t position, bool write,
            const ChannelOrder& order, uint32_t& other, uint64_t& step);

 private:
  struct Access {
    uint32_t channel = 0;
    uint64_t position = 0;
  };
  struct Cell {
    uint64_t end = 0;
    bool written = false;
    Access write;
    std::vector<Access> reads;  // the last one of each channel since the write
  };
  void split(uint64_t at);

  std::map<uint64_t, Cell> cells_;  // by begin
};

}  // namespace neuron::ccom

#endif
