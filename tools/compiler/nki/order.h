// SPDX-License-Identifier: Apache-2.0
//
// Records of a trace that wait for room on the chip, where the kernel leaves the order of its calls
// to the compiler.
//
// A tile for which there is no room waits, and so does each later record that touches what a waiting
// one touches, if one of the two writes it. All others go on, and may free the room. What a record
// touches is a box around its operand, so a record may wait in vain, but it never goes too early.
// Callers: lowering. Thread-safe: no. Borrows the text of the trace.
#ifndef TOOLS_COMPILER_NKI_ORDER_H
#define TOOLS_COMPILER_NKI_ORDER_H

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "tools/compiler/nki/record.h"

namespace neuron::nki {

// A part of a tile, of a tensor, or of what engines keep from one instruction to the next.
struct Touch {
  enum class Of : uint8_t { kTile, kTensor, kEngines };
  Of of = Of::kTile;
  uint32_t id = 0;
  bool write = false;
  uint64_t first_part = 0, end_part = 0;  // Partitions
  int64_t first_byte = 0, end_byte = 0;   // Of each partition, or of the tensor

  bool overlaps(const Touch& other) const {
    return first_part < other.end_part && other.first_part < end_part &&
           first_byte < other.end_byte && other.first_byte < end_byte;
  }
};

// Everything that a record reads, writes, makes or frees.
std::vector<Touch> touches_of(Record& record);

// A line of the trace that waits.
struct WaitingRecord {
  std::string_view line;
  uint64_t number = 0;
  std::vector<Touch> touches;
};

class WaitingRecords {
 public:
  bool empty() const { return records_.empty(); }
  bool must_wait(const std::vector<Touch>& touches) const;
  void add(WaitingRecord record);
  // All that wait, in their order; none waits any more.
  std::vector<WaitingRecord> take();

 private:
  struct Touched {
    std::vector<Touch> reads, writes;
  };
  std::vector<WaitingRecord> records_;
  std::map<std::pair<Touch::Of, uint32_t>, Touched> touched_;
};

}  // namespace neuron::nki

#endif
