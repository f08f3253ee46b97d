// SPDX-License-Identifier: Apache-2.0
//
// Records of a trace that wait for room on the chip, where the kernel leaves the order of its calls
// to the compiler.
//
// A tile for which there is no room waits, and so does each later record that touches what a
// waiting one touches, if one of the two writes it. All others go on, and may free the room. What a
// record touches is a box around its operand, so a record may wait in vain, but it never goes too
// early. Tiles do not overtake each other in one memory: later ones would take the room from the
// first. A tile whose last use was lowered gives its room, though Python may still hold it.
// Callers: lowering. Thread-safe: no. Borrows the text of the trace.
#ifndef TOOLS_COMPILER_NKI_ORDER_H
#define TOOLS_COMPILER_NKI_ORDER_H

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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
  std::string tile_in;  // The memory of the tile that the line makes; empty: it makes none
};

WaitingRecord waiting_record(std::string_view line, uint64_t number, Record& record);

class WaitingRecords {
 public:
  bool empty() const { return records_.empty(); }
  bool must_wait(const WaitingRecord& record) const;
  void add(WaitingRecord record);
  // All that wait, in their order. Each counts as unused() sees it until done(), which comes before
  // it is lowered or added again.
  std::vector<WaitingRecord> take();
  void done(const WaitingRecord& record);

  // Until which line of the trace each tile is used; needed by unused().
  void used_until(uint32_t tile, uint64_t line);
  void learned_uses() { knows_uses_ = true; }
  bool knows_uses() const { return knows_uses_; }
  // How far the trace was read.
  void reached(uint64_t line) { line_ = std::max(line_, line); }
  // True if neither a later line nor a record that waits uses the tile.
  bool unused(uint32_t tile) const;

 private:
  struct Touched {
    std::vector<Touch> reads, writes;
  };
  std::vector<WaitingRecord> records_;
  std::map<std::pair<Touch::Of, uint32_t>, Touched> touched_;
  std::set<std::string> full_;        // Memories for which tiles wait
  std::map<uint32_t, size_t> users_;  // By tile: records that wait
  std::map<uint32_t, uint64_t> last_uses_;
  bool knows_uses_ = false;
  uint64_t line_ = 0;
};

}  // namespace neuron::nki

#endif
