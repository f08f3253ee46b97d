// SPDX-License-Identifier: Apache-2.0
//
// The part of SBUF in which values stay between tasks: pieces of one tile of all partitions.
//
// A piece comes back when its last holder lets go. The next piece begins behind the last one, so
// that what was freed a moment ago, which engines may still read, is given away late.
// Callers: residents. Thread-safe: no. Owns the tile. Fails: no room gives no tile.
#ifndef TOOLS_COMPILER_LOWERING_ARENA_H
#define TOOLS_COMPILER_LOWERING_ARENA_H

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tools/compiler/program_builder/program.h"

namespace neuron::lowering {

class Arena {
 public:
  // `columns` elements of 4 bytes of every partition; 0: never any room.
  Arena(builder::Program& program, uint32_t columns);
  std::shared_ptr<const builder::Tile> take(uint32_t columns);
  // From now on pieces lie below the limit if they find room there, and lend() has what is above.
  void limit(uint32_t columns) { limit_ = std::min(columns, columns_); }
  std::shared_ptr<const builder::Tile> lend(uint32_t columns);
  // Tiles of so many columns with one distance between neighbours; empty if there is no room.
  std::vector<std::shared_ptr<const builder::Tile>> take_row(uint32_t columns, size_t count);
  // Takes the tile from SBUF, if it is not there; else the first piece does.
  void reserve();
  bool reserved() const { return whole_.present(); }
  // Gives the tile back, unless somebody holds a piece.
  void release();

 private:
  using Used = std::map<uint32_t, uint32_t>;  // first column to the one behind the last
  std::optional<uint32_t> find(uint32_t columns, uint32_t from, uint32_t end) const;
  std::shared_ptr<const builder::Tile> piece(uint32_t first, uint32_t columns);

  builder::Program& program_;
  uint32_t columns_, limit_;
  builder::Tile whole_;
  std::shared_ptr<Used> used_ = std::make_shared<Used>();
  uint32_t next_ = 0, next_lent_ = 0;
};

}  // namespace neuron::lowering

#endif
