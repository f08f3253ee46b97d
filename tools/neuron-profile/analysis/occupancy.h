// SPDX-License-Identifier: Apache-2.0
//
// Which bytes of SBUF and PSUM hold something that is still read, and how long: from the write to
// the last read before other bytes are written there. What nobody reads is there while it is
// written. What was there before, or came by a transfer whose place is not known, is there from its
// first read on.
//
// Partitions 0, 32, 64 and 96 are looked at, as the tables of the original do. Events come in the
// order of their times. Callers: tables of a profile. One thread. Cannot fail. Memory: of what is
// there at one time.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_OCCUPANCY_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_OCCUPANCY_H

#include <array>
#include <functional>
#include <map>

#include "tools/neuron-profile/analysis/instruction_facts.h"

namespace neuron::profile {

class Occupancy {
 public:
  static constexpr unsigned kPartitions = 4, kEvery = 32;  // 0, 32, 64, 96

  // Who wrote: a number of the caller's.
  struct Stay {
    uint64_t from = 0, to = 0;  // times
    uint64_t writer = 0;
    uint32_t begin = 0, end = 0;  // bytes of the partition
    uint8_t space = 0;            // enum neuron_space
    uint8_t partition = 0;        // of kPartitions
  };
  using Use = std::function<void(const Stay&)>;
  static constexpr uint64_t kNobody = UINT64_MAX;

  explicit Occupancy(Use use) : use_(std::move(use)) {}

  void add(const TilePiece& piece, uint64_t from, uint64_t to, uint64_t writer);
  // Ends all stays.
  void finish();

 private:
  using Stays = std::map<uint32_t, Stay>;  // by their first byte, apart from each other

  void write(Stays& stays, const Stay& stay);
  static void read(Stays& stays, const Stay& stay);

  Use use_;
  std::array<std::array<Stays, kPartitions>, 2> stays_;  // SBUF, PSUM
};

}  // namespace neuron::profile

#endif
