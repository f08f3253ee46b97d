// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tools/compiler/lowering/broadcast.h"
#include "tools/compiler/lowering/layout_group.h"
#include "tools/compiler/lowering/piece.h"

namespace neuron::lowering {
namespace {

using graph::Kind;

// Columns [column, column + columns) of rows [row, row + parts), which have `pitch` elements each.
struct Part {
  uint64_t row = 0, column = 0, pitch = 0;
  uint32_t parts = 0, columns = 0;

  uint64_t first() const { return row * pitch + column; }
};

// Rows in HBM.
class Rows : public Exchange {
 public:
  Rows(Workspace& work, const Part& part) : work_(work), part_(part) {}

  Lane load(Lanes& lanes, Value value) override {
    const uint8_t dtype = Workspace::dtype_of(work_.node(value).type);
    const bool small_only = broadcast_of(work_.graph, value).kind != Broadcast::Kind::kNone &&
                            !work_.has_place(value) && !work_.residents.has(value);
    if (!small_only) return lanes.load_rows(work_.place(value), part_.first(), part_.pitch, dtype);
    // Without a place of its own it repeats a smaller value.
    const Broadcast small = broadcast_of(work_.graph, value);
    const Buffer& source = work_.place(small.source);
    if (small.kind == Broadcast::Kind::kRow) return lanes.load_rows(source, part_.column, 0, dtype);
    return lanes.load_numbers(source, part_.row % static_cast<uint64_t>(small.count), dtype);
  }
  void store(Lanes& lanes, Value value, const Lane& lane) override {
    lanes.store_rows(work_.place(value), part_.first(), part_.pitch, lane);
  }

 private:
  Workspace& work_;
  const Part part_;
};

// Operands that repeat smaller values, of rows of one length. Those of other lengths get places.
std::vector<Broadcast> broadcasts_of(Workspace& work, const MapGroup& group) {
  std::vector<Broadcast> list;
  for (const Value member : group.members) {
    for (const Value operand : work.node(member).operands) {
      const bool inside = std::count(group.members.begin(), group.members.end(), operand) != 0;
      double number = 0;
      if (inside || work.node(operand).kind == Kind::kConstant || work.has_place(operand) ||
          work.residents.has(operand) || work.uniform(operand, number)) {
        continue;
      }
      const Broadcast found = broadcast_of(work.graph, operand);
      const bool small = found.kind != Broadcast::Kind::kNone;
      if (small && (list.empty() || found.inner == list[0].inner)) {
        list.push_back(found);
      } else {
        emit_move(work, operand);
      }
    }
  }
  return list;
}

// Calls body(Part) for parts of rows as the broadcasts need them.
template <class Body>
void for_rows(uint64_t elements, const std::vector<Broadcast>& broadcasts, const Body& body) {
  const auto inner = static_cast<uint64_t>(broadcasts[0].inner);
  const uint64_t rows = elements / inner;
  for (uint64_t row = 0; row < rows;) {
    uint64_t parts = std::min<uint64_t>(NEURON_PARTITIONS, rows - row);
    for (const Broadcast& small : broadcasts) {
      const auto count = static_cast<uint64_t>(small.count);
      if (small.kind == Broadcast::Kind::kNumberOfRow) parts = std::min(parts, count - row % count);
    }
    for (uint64_t column = 0; column < inner; column += Workspace::kWidth) {
      const uint64_t columns = std::min<uint64_t>(Workspace::kWidth, inner - column);
      body(Part{row, column, inner, static_cast<uint32_t>(parts), static_cast<uint32_t>(columns)});
    }
    row += parts;
  }
}

}  // namespace

void emit_maps(Workspace& work, const MapGroup& group) {
  // A program that has failed gives no places.
  if (!work.program.ok()) return;
  const Node& first_node = work.node(group.members[0]);
  work.program.section(first_node.origin);
  if (work.resident()) {
    const std::optional<Layout> layout = layout_of(work, group);
    if (layout) return LayoutGroup(work, group, *layout).emit();
  }
  const std::vector<Broadcast> broadcasts = broadcasts_of(work, group);
  work.program.section(first_node.origin);
  const std::map<Value, size_t> last_use = last_uses(work, group);
  for (size_t i = 0; i < group.members.size(); ++i) {
    if (group.stored[i]) work.make_place(group.members[i]);
  }
  const auto elements = static_cast<uint64_t>(graph::elements_of(first_node.shape));
  if (!work.program.ok()) return;
  const auto emit = [&](const Part& part) {
    Rows rows(work, part);
    Piece(work, part.parts, part.columns, rows).run(group, last_use);
  };
  if (!broadcasts.empty()) return for_rows(elements, broadcasts, emit);
  Workspace::for_pieces(elements, [&](uint64_t first, uint32_t parts, uint32_t columns) {
    emit({0, first, columns, parts, columns});
  });
}

}  // namespace neuron::lowering
