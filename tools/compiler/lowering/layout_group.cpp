// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/layout_group.h"

#include <algorithm>

namespace neuron::lowering {
namespace {

using graph::Kind;

bool has_member(const MapGroup& group, Value value) {
  return std::count(group.members.begin(), group.members.end(), value) != 0;
}

// Rows of fewer elements cost as much as those.
constexpr int64_t kLeastInner = 32;
// Fewer rows leave most lanes idle.
constexpr int64_t kLeastRows = 32;

}  // namespace

std::optional<Layout> layout_of(Workspace& work, const MapGroup& group) {
  const graph::Shape& shape = work.node(group.members[0]).shape;
  const int64_t elements = graph::elements_of(shape);
  for (const Value member : group.members) {
    for (const Value operand : work.node(member).operands) {
      const Resident resident = work.residents.find(operand);
      if (resident.present()) return resident.layout;
    }
  }
  if (shape.size() < 2 || shape.back() < kLeastInner || elements / shape.back() < kLeastRows) {
    return std::nullopt;
  }
  return Layout{1, elements / shape.back(), shape.back()};
}

LayoutGroup::LayoutGroup(Workspace& work, const MapGroup& group, const Layout& layout, Value given)
    : work_(work),
      group_(group),
      layout_(layout),
      given_(given),
      last_use_(last_uses(work, group)) {
  for (const Value member : group_.members) {
    for (const Value operand : work.node(member).operands) {
      double number = 0;
      if (operand == given_ || has_member(group_, operand) || sources_.count(operand) != 0 ||
          work.uniform(operand, number)) {
        continue;
      }
      sources_[operand] = source_of(operand);
    }
  }
  for (size_t i = 0; i < group_.members.size(); ++i) {
    if (!group_.stored[i]) continue;
    const Value member = group_.members[i];
    Resident result = room_of_operand(i);
    if (!result.present()) result = work.residents.allocate(member, layout_);
    if (result.present()) {
      results_[member] = result;
    } else {
      work.make_place(member);
    }
  }
  work.program.section(work.node(group_.members[0]).origin);
}

Resident LayoutGroup::room_of_operand(size_t member) {
  const Value value = group_.members[member];
  for (const Value spent : group_.spent) {
    const auto source = sources_.find(spent);
    if (source == sources_.end() || last_use_.at(spent) > member) continue;
    const Source& from = source->second;
    if (!from.resident.present() || from.resident.layout != layout_ || !from.by_outer ||
        !from.by_inner) {
      continue;
    }
    const Resident room = work_.residents.succeed(value, spent, group_.spent);
    if (room.present()) return room;
  }
  return {};
}

// An operand that repeats a smaller value is read from that one.
std::optional<LayoutGroup::Source> LayoutGroup::repeated(Value value) {
  if (work_.has_place(value) || !is_broadcast(work_.graph, value)) return std::nullopt;
  const auto strides = strides_in(work_.graph, value, layout_);
  if (!strides) return std::nullopt;
  const Value small = work_.node(value).operands[0];
  const int64_t elements = graph::elements_of(work_.node(small).shape);
  const bool every_outer = strides->outer == 0, every_inner = strides->inner == 0;
  if (strides->row == 0) {
    // A row for all lanes; its outer and inner elements must lie as in a layout.
    if (!every_inner && strides->inner != 1) return std::nullopt;
    const int64_t inner = every_inner ? 1 : layout_.inner;
    if (!every_outer && strides->outer != inner) return std::nullopt;
    if (elements != inner * (every_outer ? 1 : layout_.outer)) return std::nullopt;
    Resident row = work_.residents.replicate(small);
    if (!row.present()) return std::nullopt;
    row.layout = {every_outer ? 1 : layout_.outer, 1, inner};
    return Source{row, !every_outer, !every_inner};
  }
  const int64_t inner = strides->row;
  if (every_inner ? inner != 1 : inner != layout_.inner || strides->inner != 1) return std::nullopt;
  if (!every_outer && strides->outer != layout_.rows * inner) return std::nullopt;
  const Layout wanted{every_outer ? 1 : layout_.outer, layout_.rows, inner};
  if (elements != wanted.elements()) return std::nullopt;
  const Resident resident = work_.residents.load(small, wanted);
  if (!resident.present()) return std::nullopt;
  return Source{resident, !every_outer, !every_inner};
}

LayoutGroup::Source LayoutGroup::source_of(Value value) {
  const Resident resident = work_.residents.find(value);
  if (resident.present() && resident.layout == layout_) return {resident};
  if (auto small = repeated(value)) return *small;
  if (work_.node(value).kind == Kind::kMove && !work_.has_place(value) &&
      !work_.residents.has(value)) {
    emit_move(work_, value);
  }
  // Who else reads it finds it here.
  if (work_.residents.lasts(value, group_.members.back())) {
    const Resident loaded = work_.residents.load(value, layout_);
    if (loaded.present()) return {loaded};
  }
  work_.place(value);
  return {};
}

// Parts of values in SBUF or HBM.
class LayoutExchange : public Exchange {
 public:
  LayoutExchange(LayoutGroup& group, const LayoutGroup::Part& part) : group_(group), part_(part) {}

  Lane load(Lanes& lanes, Value value) override;
  void store(Lanes& lanes, Value value, const Lane& lane) override;
  TileAccess target(Value value) override {
    const auto result = group_.results_.find(value);
    return result == group_.results_.end() ? TileAccess{} : whole(result->second);
  }

 private:
  TileAccess whole(const Resident& resident) const {
    if (part_.tiles > 1) return resident.across(part_.tile, part_.tiles);
    return resident.at(part_.tile, part_.outer, part_.outers, part_.inner, part_.inners);
  }
  BufferAccess rows(Value value) const;
  Lane repeated(Lanes& lanes, const LayoutGroup::Source& source, uint8_t dtype) const;

  LayoutGroup& group_;
  const LayoutGroup::Part& part_;
};

BufferAccess LayoutExchange::rows(Value value) const {
  const Layout& layout = group_.layout_;
  const Buffer& buffer = group_.work_.place(value);
  BufferAccess access;
  access.buffer = buffer.index;
  access.dtype = buffer.dtype;
  const int64_t row = part_.tile * Layout::kLanes;
  access.offset =
      static_cast<uint64_t>((part_.outer * layout.rows + row) * layout.inner + part_.inner) * 4;
  access.ndim = 3;
  access.size = {uint64_t{part_.inners} * 4, part_.outers, layout.parts(part_.tile), 1};
  access.step = {1, layout.rows * layout.inner * 4, layout.inner * 4, 0};
  return access;
}

Lane LayoutExchange::load(Lanes& lanes, Value value) {
  const uint8_t dtype = Workspace::dtype_of(group_.work_.node(value).type);
  const LayoutGroup::Source& source = group_.sources_.at(value);
  if (!source.resident.present()) {
    const Lane lane = lanes.fresh(dtype);
    group_.work_.load(lanes.access(lane), rows(value));
    return lane;
  }
  if (!source.by_outer || !source.by_inner || source.resident.replicated) {
    return repeated(lanes, source, dtype);
  }
  return {nullptr, dtype, whole(source.resident)};
}

// Steps of 0 repeat what lies on a partition once.
Lane LayoutExchange::repeated(Lanes& lanes, const LayoutGroup::Source& source,
                              uint8_t dtype) const {
  const Resident& resident = source.resident;
  const int64_t outer = source.by_outer ? part_.outer : 0,
                inner = source.by_inner ? part_.inner : 0;
  const auto first = static_cast<uint32_t>(outer * resident.layout.inner + inner);
  Tile tile = *resident.tiles[resident.replicated ? 0 : static_cast<size_t>(part_.tile)];
  const int32_t pitch = part_.tiles > 1 ? resident.pitch().value_or(0) : 0;
  tile.columns += static_cast<uint32_t>(pitch) * (part_.tiles - 1);
  Lane lane{nullptr, dtype};
  lane.view =
      tile.pattern(0, lanes.parts(), first, {part_.inners, part_.outers, part_.tiles},
                   {source.by_inner ? 1 : 0,
                    source.by_outer ? static_cast<int32_t>(resident.layout.inner) : 0, pitch});
  lane.view.dtype = dtype;
  const bool one = part_.tiles == 1 && !source.by_inner && (!source.by_outer || part_.outers == 1);
  if (one && dtype == NEURON_DTYPE_F32) lane.column = tile.at(0, lanes.parts(), first, 1);
  return lane;
}

void LayoutExchange::store(Lanes& lanes, Value value, const Lane& lane) {
  const TileAccess to = target(value);
  if (!to.present()) {
    group_.work_.store(rows(value), lanes.access(lane));
    return;
  }
  TileAccess typed = to;
  typed.dtype = NEURON_DTYPE_U32;  // the bits are copied
  group_.work_.program.tensor_copy(Engine::kDve, typed, lanes.access(lane.as(NEURON_DTYPE_U32)));
}

void LayoutGroup::piece(const Part& part, const TileAccess& given) {
  LayoutExchange exchange(*this, part);
  Piece piece(work_, layout_.parts(part.tile), part.outers * part.inners * part.tiles, exchange);
  if (given.present()) piece.give(given_, given);
  piece.run(group_, last_use_);
}

int64_t LayoutGroup::tiles_at_once() const {
  if (layout_.columns() > Layout::kFewColumns) return 1;
  const auto in_row = [](const Resident& resident) {
    return resident.present() && resident.pitch().has_value();
  };
  for (const auto& [value, source] : sources_) {
    if (!in_row(source.resident)) return 1;
  }
  for (size_t i = 0; i < group_.members.size(); ++i) {
    if (!group_.stored[i]) continue;
    const auto result = results_.find(group_.members[i]);
    if (result == results_.end() || !in_row(result->second)) return 1;
  }
  return std::min(layout_.rows / Layout::kLanes, Workspace::kWidth / layout_.columns());
}

void LayoutGroup::emit() {
  if (!work_.program.ok()) return;
  const auto width = int64_t{Workspace::kWidth};
  const int64_t outers = std::clamp<int64_t>(width / layout_.inner, 1, layout_.outer);
  const int64_t full = layout_.rows / Layout::kLanes, most = tiles_at_once();
  int64_t tile = 0;
  for (; most > 1 && tile < full; tile += most) {
    piece({tile, 0, 0, static_cast<uint32_t>(layout_.outer), static_cast<uint32_t>(layout_.inner),
           static_cast<uint32_t>(std::min(most, full - tile))});
  }
  for (tile = most > 1 ? full : 0; tile < layout_.tiles(); ++tile) {
    for (int64_t outer = 0; outer < layout_.outer; outer += outers) {
      const int64_t some = std::min(outers, layout_.outer - outer);
      for (int64_t inner = 0; inner < layout_.inner; inner += width) {
        piece({tile, outer, inner, static_cast<uint32_t>(some),
               static_cast<uint32_t>(std::min(width, layout_.inner - inner))});
      }
    }
  }
}

}  // namespace neuron::lowering
