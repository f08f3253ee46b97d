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
// Laying numbers out for all elements takes as long as so many maps in lanes of which most are
// idle.
constexpr size_t kMapsOfRepeat = 5;
// With fewer, engines wait for each other.
constexpr int64_t kFewestPieces = 3;
// Fewer rows leave most lanes idle.
constexpr int64_t kLeastRows = 32;

// Rows of the last dimension; none if they would be short or few.
std::optional<Layout> layout_of_lines(const graph::Shape& shape) {
  const int64_t elements = graph::elements_of(shape);
  if (shape.size() < 2 || shape.back() < kLeastInner || elements / shape.back() < kLeastRows) {
    return std::nullopt;
  }
  return Layout{1, elements / shape.back(), shape.back()};
}

// The layout in which an operand that repeats a number for each channel has one for each row; as
// lines, or in order, all its elements would be laid out in HBM, one by one.
std::optional<Layout> layout_of_channels(const Workspace& work, Value operand) {
  double number = 0;
  if (work.has_place(operand) || work.uniform(operand, number) ||
      !is_broadcast(work.graph, operand)) {
    return std::nullopt;
  }
  const graph::Shape& shape = work.node(operand).shape;
  const auto lines = layout_of_lines(shape);
  if (lines && strides_in(work.graph, operand, *lines)) return std::nullopt;
  Layout layout{1, 1, graph::elements_of(shape)};
  for (const int64_t size : shape) {
    layout.outer *= layout.rows;
    layout.rows = size;
    layout.inner /= size;
    const auto strides = strides_in(work.graph, operand, layout);
    if (strides && strides->outer == 0 && strides->row == 1 && strides->inner == 0 &&
        layout.rows > 1 && layout.inner >= kLeastInner) {
      return layout;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Layout> shown_layout(const Workspace& work, Value value) {
  const Node& node = work.node(value);
  if (node.kind != Kind::kMove || node.operands.size() != 1 || node.regions.size() != 1) {
    return std::nullopt;
  }
  const Resident from = work.residents.find(node.operands[0]);
  const int64_t elements = graph::elements_of(node.shape);
  if (!from.present() || from.replicated ||
      elements % (from.layout.outer * from.layout.rows) != 0) {
    return std::nullopt;
  }
  const Layout layout{from.layout.outer, from.layout.rows,
                      elements / from.layout.outer / from.layout.rows};
  const auto view = view_of(node.regions[0], layout, from.layout);
  // One dimension outside and two inside are what a piece can be cut from.
  const auto inside = [&](const ColumnView::Step& step) { return step.to < layout.inner; };
  if (!view || layout.columns() > INT16_MAX) return std::nullopt;
  const auto within = std::count_if(view->steps.begin(), view->steps.end(), inside);
  const auto outside = static_cast<ptrdiff_t>(view->steps.size()) - within;
  return within <= 2 && outside <= 1 ? std::optional(layout) : std::nullopt;
}

std::optional<Layout> layout_of(Workspace& work, const MapGroup& group) {
  for (const Value member : group.members) {
    for (const Value operand : work.node(member).operands) {
      const Resident resident = work.residents.find(operand);
      if (resident.present()) return resident.layout;
      const auto shown = work.has_place(operand) ? std::nullopt : shown_layout(work, operand);
      if (shown) return shown;
    }
  }
  std::optional<Layout> channels;
  size_t repeats = 0;
  for (const Value member : group.members) {
    for (const Value operand : work.node(member).operands) {
      const auto layout = layout_of_channels(work, operand);
      repeats += layout.has_value() ? 1 : 0;
      if (!channels) channels = layout;
    }
  }
  const bool pays =
      channels && (channels->rows >= kLeastRows || group.members.size() <= kMapsOfRepeat * repeats);
  if (pays) return channels;
  return layout_of_lines(work.node(group.members[0]).shape);
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

// A step of the first member may wait, and then reads its operand late; but its only reader is the
// member behind it, so nothing is written there before.
Resident LayoutGroup::room_of_operand(size_t member) {
  const Value value = group_.members[member];
  for (const Value spent : group_.spent) {
    const auto source = sources_.find(spent);
    if (source == sources_.end() || last_use_.at(spent) > member) continue;
    const Source& from = source->second;
    if (!from.resident.present() || from.view || from.resident.layout != layout_ ||
        !from.by_outer || !from.by_inner) {
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

// A move whose elements can be read where they were. Pieces that others cut know nothing of lines.
std::optional<LayoutGroup::Source> LayoutGroup::shown(Value value) {
  if (given_ != graph::kNone || work_.has_place(value) || work_.residents.has(value) ||
      shown_layout(work_, value) != layout_) {
    return std::nullopt;
  }
  const Node& node = work_.node(value);
  const Resident from = work_.residents.find(node.operands[0]);
  const auto view = view_of(node.regions[0], layout_, from.layout);
  const auto& steps = view->steps;
  const bool lines = steps.size() > 1 && steps[1].to < layout_.inner;
  if (lines && line_ != 0 && line_ != steps[0].size) return std::nullopt;
  if (lines) line_ = steps[0].size;
  return Source{from, true, true, view};
}

LayoutGroup::Source LayoutGroup::source_of(Value value) {
  const Resident resident = work_.residents.find(value);
  if (resident.present() && resident.layout == layout_) return {resident};
  if (auto small = repeated(value)) return *small;
  if (auto view = shown(value)) return *view;
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
  TileAccess shown(Lanes& lanes, const LayoutGroup::Source& source) const;

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
  if (source.view) return {nullptr, dtype, shown(lanes, source)};
  if (!source.by_outer || !source.by_inner || source.resident.replicated) {
    return repeated(lanes, source, dtype);
  }
  return {nullptr, dtype, whole(source.resident)};
}

// The part's columns of another value: whole lines, or some of one.
TileAccess LayoutExchange::shown(Lanes& lanes, const LayoutGroup::Source& source) const {
  const auto& steps = source.view->steps;
  const Tile& tile = *source.resident.tiles[static_cast<size_t>(part_.tile)];
  TileAccess access = tile.at(0, lanes.parts(), 0, 1);
  access.ndim = 0;
  int64_t first = source.view->first;
  const auto dimension = [&](int64_t size, int64_t step) {
    if (size == 1 && access.ndim > 0) return;
    access.size[access.ndim] = static_cast<uint32_t>(size);
    access.step[access.ndim++] = static_cast<int32_t>(step);
  };
  const auto inner = std::count_if(steps.begin(), steps.end(), [&](const ColumnView::Step& step) {
    return step.to < group_.layout_.inner;
  });
  const int64_t step_x = inner > 0 ? steps[0].from : 0;
  if (inner < 2) {
    first += part_.inner * step_x;
    dimension(part_.inners, step_x);
  } else {
    const int64_t line = steps[0].size, y = part_.inner / line, x = part_.inner % line;
    first += y * steps[1].from + x * step_x;
    dimension(std::min<int64_t>(part_.inners, line), step_x);
    dimension(std::max<int64_t>(1, part_.inners / line), steps[1].from);
  }
  if (static_cast<size_t>(inner) < steps.size()) {
    first += part_.outer * steps.back().from;
    dimension(part_.outers, steps.back().from);
  }
  access.base += static_cast<uint32_t>(first) * 4;
  return access;
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
  piece.share(layout_.columns() * layout_.tiles() >= kFewestPieces * int64_t{Workspace::kWidth});
  if (given.present()) piece.give(given_, given);
  piece.run(group_, last_use_);
}

int64_t LayoutGroup::tiles_at_once() const {
  if (layout_.columns() > Layout::kFewColumns) return 1;
  const auto in_row = [](const Resident& resident) {
    return resident.present() && resident.pitch().has_value();
  };
  for (const auto& [value, source] : sources_) {
    if (source.view || !in_row(source.resident)) return 1;
  }
  for (size_t i = 0; i < group_.members.size(); ++i) {
    if (!group_.stored[i]) continue;
    const auto result = results_.find(group_.members[i]);
    if (result == results_.end() || !in_row(result->second)) return 1;
  }
  return std::min(layout_.rows / Layout::kLanes, Workspace::kWidth / layout_.columns());
}

// How many columns of a row the piece from there on has: whole lines of views, or a part of one.
int64_t LayoutGroup::columns_from(int64_t inner) const {
  const auto width = int64_t{Workspace::kWidth};
  const int64_t rest = layout_.inner - inner;
  if (line_ == 0) return std::min(width, rest);
  if (line_ <= width) return std::min(width / line_ * line_, rest);
  return std::min(width, line_ - inner % line_);
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
      for (int64_t inner = 0; inner < layout_.inner;) {
        const int64_t columns = columns_from(inner);
        piece({tile, outer, inner, static_cast<uint32_t>(some), static_cast<uint32_t>(columns)});
        inner += columns;
      }
    }
  }
}

}  // namespace neuron::lowering
