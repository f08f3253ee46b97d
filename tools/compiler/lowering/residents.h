// SPDX-License-Identifier: Apache-2.0
//
// The values that lie in SBUF between tasks.
//
// A value may lie in SBUF, in HBM, or in both. Whoever needs it in HBM asks the workspace for its
// place, which stores it then; whoever needs it here asks for it in a layout, which loads it. Where
// there is no room, the value that is needed last goes to HBM, unless a task holds it.
// Callers: the workspace, tasks. Thread-safe: no. Borrows the workspace. Fails: no room gives
// nothing, and the task works through HBM.
#ifndef TOOLS_COMPILER_LOWERING_RESIDENTS_H
#define TOOLS_COMPILER_LOWERING_RESIDENTS_H

#include <map>
#include <memory>
#include <vector>

#include "tools/compiler/lowering/arena.h"
#include "tools/compiler/lowering/layout.h"

namespace neuron::lowering {

class Workspace;

struct Resident {
  Layout layout;
  bool replicated = false;  // its only row is on all partitions
  std::vector<std::shared_ptr<const builder::Tile>> tiles;

  bool present() const { return !tiles.empty(); }
  // Columns from the beginning of each tile to that of the next; none if they differ.
  std::optional<int32_t> pitch() const;
  // Columns of a tile: `outers` times `inners`, from [outer, inner] on.
  builder::TileAccess at(int64_t tile, int64_t outer, uint32_t outers, int64_t inner,
                         uint32_t inners) const;
  // All columns of `count` full tiles, one behind the other.
  builder::TileAccess across(int64_t tile, uint32_t count) const;
};

class Residents {
 public:
  Residents(Workspace& work, uint32_t columns);

  void reserve() { arena_.reserve(); }
  // last_use: of each value, the node after whose task it is not read any more; needs: of each
  // node, the columns that values will take from its task on.
  void plan(std::vector<size_t> last_use, std::vector<int64_t> needs) {
    last_use_ = std::move(last_use);
    needs_ = std::move(needs);
  }
  // Constants with a number for each row, which come together when the first is needed.
  void plan_numbers(std::vector<graph::Value> values) { numbers_ = std::move(values); }
  // Drops what is not read after the task of the node.
  void expire(size_t node);

  bool lasts(graph::Value value, graph::Value node) const {
    return last_use_[static_cast<size_t>(value)] > static_cast<size_t>(node);
  }
  bool has(graph::Value value) const { return table_.count(value) != 0; }
  Resident find(graph::Value value) const;
  // The value, which has the elements of another one at the same places.
  void set(graph::Value value, const Resident& resident) { table_[value] = resident; }
  void forget(graph::Value value) { table_.erase(value); }
  // Makes the value in the room of `old`. Not present if a value that is not spent lies there, too,
  // or somebody holds the room besides one copy.
  Resident succeed(graph::Value value, graph::Value old, const std::vector<graph::Value>& spent);
  // Room for the value; not present if there is none.
  Resident allocate(graph::Value value, const Layout& layout);
  // Room that no value has.
  Resident scratch(const Layout& layout);
  // Room that values will not need, for somebody who gives it back if they do: see
  // Workspace::stream().
  std::shared_ptr<const builder::Tile> lend(uint32_t columns) { return arena_.lend(columns); }
  // The value in this layout, loaded if it is not here; not present if there is no room.
  Resident load(graph::Value value, const Layout& layout);
  // All elements as one row on all partitions.
  Resident replicate(graph::Value value);
  // To its place in HBM.
  void store(graph::Value value, const builder::Buffer& buffer) const;

 private:
  void load_numbers();
  bool load_turned(const Resident& resident, const builder::Buffer& from);
  bool spill_one();
  Resident room(const Layout& layout);

  Workspace& work_;
  Arena arena_;
  std::vector<size_t> last_use_;
  std::vector<int64_t> needs_;
  std::vector<graph::Value> numbers_;  // that are not here yet
  std::map<graph::Value, Resident> table_;
  std::map<graph::Value, Resident> replicated_;
};

}  // namespace neuron::lowering

#endif
