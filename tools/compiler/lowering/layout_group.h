// SPDX-License-Identifier: Apache-2.0
//
// The maps of a group on values that stay in SBUF: operands are read where they lie, repeated ones
// from the smaller values that they repeat, and results stay. What has no room goes through HBM,
// piece by piece.
// Callers: the tasks of maps and products. Thread-safe: no. Holds its operands and results in SBUF.
// Fails: the program keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_LAYOUT_GROUP_H
#define TOOLS_COMPILER_LOWERING_LAYOUT_GROUP_H

#include <map>
#include <optional>

#include "tools/compiler/lowering/piece.h"
#include "tools/compiler/lowering/resident_move.h"

namespace neuron::lowering {

// The layout in which maps may read the move's operand instead of its result; none if nobody can,
// now: its operand is not in SBUF, or lies otherwise there.
std::optional<Layout> shown_layout(const Workspace& work, Value value);

// In which layout a group should work; none: over all elements in order, through HBM.
std::optional<Layout> layout_of(Workspace& work, const MapGroup& group);

class LayoutGroup {
 public:
  // `given`: an operand whose elements the caller has, piece by piece.
  LayoutGroup(Workspace& work, const MapGroup& group, const Layout& layout,
              Value given = graph::kNone);

  // Of rows of a tile: `outers` times `inners` elements from [outer, inner] on; at most as many as
  // a register has.
  struct Part {
    int64_t tile = 0, outer = 0, inner = 0;
    uint32_t outers = 1, inners = 1;
    uint32_t tiles = 1;  // with more, all columns of full ones
  };
  void piece(const Part& part, const TileAccess& given = {});
  // All pieces.
  void emit();

 private:
  friend class LayoutExchange;

  // How an operand is read.
  struct Source {
    Resident resident;  // not present: from HBM
    bool by_outer = true, by_inner = true;
    std::optional<ColumnView> view = {};  // of the resident, which is the operand's operand
  };
  Source source_of(Value value);
  // Room of an operand that nobody reads behind the member: each element is read before it is
  // written. Not present if there is none.
  Resident room_of_operand(size_t member);
  // How many full tiles an instruction may take.
  int64_t tiles_at_once() const;
  std::optional<Source> repeated(Value value);
  std::optional<Source> shown(Value value);
  int64_t columns_from(int64_t inner) const;

  Workspace& work_;
  const MapGroup group_;
  const Layout layout_;
  const Value given_;
  int64_t line_ = 0;  // columns of views that lie in lines; 0: there are none
  std::map<Value, size_t> last_use_;
  std::map<Value, Source> sources_;
  std::map<Value, Resident> results_;
};

}  // namespace neuron::lowering

#endif
