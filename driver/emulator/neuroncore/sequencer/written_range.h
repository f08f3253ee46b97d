// SPDX-License-Identifier: Apache-2.0
// Bytes of SBUF or PSUM that an instruction writes, as a rectangle.
//
// Callers: the holder of the core. A value; cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_WRITTEN_RANGE_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_WRITTEN_RANGE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace neuron::core {

struct WrittenRange {
  uint8_t space = 0;
  unsigned first_partition = 0, last_partition = 0;
  size_t begin = 0, end = 0;

  bool overlaps(const WrittenRange& other) const {
    return space == other.space && begin < other.end && other.begin < end &&
           first_partition <= other.last_partition && other.first_partition <= last_partition;
  }
  // Covers the other one, too, which is of the same space.
  void cover(const WrittenRange& other) {
    first_partition = std::min(first_partition, other.first_partition);
    last_partition = std::max(last_partition, other.last_partition);
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

}  // namespace neuron::core

#endif
