// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/resident_move.h"

#include <algorithm>
#include <cstdlib>

namespace neuron::lowering {
namespace {

using Dimension = graph::Region::Dimension;

constexpr int64_t kLanes = Layout::kLanes;
// More instructions than these take longer than transfers.
constexpr size_t kMostCopies = 96;
// Columns of a value that is brought here to be taken to pieces, and of how many pieces a row then
// is at least.
constexpr int64_t kMostFetched = 8192;
constexpr uint64_t kPiecesOfRow = 8;

// A distance in elements of a layout: a number of rows, or of columns.
struct Distance {
  bool rows = false;
  int64_t count = 0;
};

std::optional<Distance> distance_of(int64_t step, int64_t size, const Layout& layout) {
  const int64_t outer = layout.rows * layout.inner;
  if (step == 0) return Distance{false, 0};
  if (step < 0) {
    auto distance = distance_of(-step, size, layout);
    if (distance) distance->count = -distance->count;
    return distance;
  }
  if (step >= outer) {
    if (step % outer != 0) return std::nullopt;
    return Distance{false, step / outer * layout.inner};
  }
  if (step >= layout.inner) {
    if (step % layout.inner != 0 || step * (size - 1) >= outer) return std::nullopt;
    return Distance{true, step / layout.inner};
  }
  if (step * (size - 1) >= layout.inner) return std::nullopt;
  return Distance{false, step};
}

struct Position {
  int64_t row = 0, column = 0;
};

Position position_of(int64_t element, const Layout& layout) {
  const int64_t outer = layout.rows * layout.inner;
  return {element % outer / layout.inner, element / outer * layout.inner + element % layout.inner};
}

struct Walk {
  int64_t size = 1;
  int64_t to = 0, from = 0;  // columns or rows
};

// A region between two layouts.
struct Plan {
  bool turns = false;
  Position to, from;
  int64_t rows = 1;  // of a block; its rows are neighbours on both sides
  // Of a turned block: `rows` rows of the result, which are columns before; and `columns`.
  int64_t columns = 1;
  std::vector<Walk> row_loops, column_loops;
  std::vector<Walk> pattern;  // columns of one instruction, innermost first
};

// The numbers that the dimensions of a region reach from its first element on.
struct Reach {
  int64_t lowest = 0, highest = 0;
  void add(int64_t distance) { (distance < 0 ? lowest : highest) += distance; }
  bool lies_in(int64_t size) const { return lowest >= 0 && highest < size; }
};

// Whether no dimension leads from one row, or from the columns of one, into another's.
bool stays_inside(const graph::Region& region, const Layout& layout, bool to) {
  const int64_t first = to ? region.to : region.from;
  const int64_t first_row = first % (layout.rows * layout.inner) / layout.inner;
  Reach inner{first % layout.inner, first % layout.inner}, row{first_row, first_row};
  for (const Dimension& d : region.dimensions) {
    const int64_t step = to ? d.to_step : d.from_step;
    const auto distance = distance_of(step, d.size, layout);
    if (!distance) return false;
    if (distance->rows) row.add(distance->count * (d.size - 1));
    if (!distance->rows && std::abs(step) < layout.inner) inner.add(step * (d.size - 1));
  }
  return inner.lies_in(layout.inner) && row.lies_in(layout.rows);
}

// Dimensions that go on over the end of a row, or over all of them, are cut there: neighbours are
// merged whatever they are in a layout.
void cut_at(std::vector<Dimension>& dimensions, int64_t Dimension::*step, int64_t boundary) {
  std::vector<Dimension> list;
  for (const Dimension& d : dimensions) {
    const int64_t inside = d.*step > 0 && d.*step < boundary && boundary % (d.*step) == 0
                               ? boundary / (d.*step)
                               : d.size;
    if (inside < d.size && d.size % inside == 0) {
      list.push_back({d.size / inside, d.to_step * inside, d.from_step * inside});
      list.push_back({inside, d.to_step, d.from_step});
    } else {
      list.push_back(d);
    }
  }
  dimensions = std::move(list);
}

std::optional<Plan> plan_of(const graph::Region& given, const Layout& to, const Layout& from) {
  graph::Region region = given;
  for (const int64_t rows : {int64_t{1}, to.rows}) {
    cut_at(region.dimensions, &Dimension::to_step, rows * to.inner);
  }
  for (const int64_t rows : {int64_t{1}, from.rows}) {
    cut_at(region.dimensions, &Dimension::from_step, rows * from.inner);
  }
  if (!stays_inside(region, to, true) || !stays_inside(region, from, false)) return std::nullopt;
  Plan plan;
  plan.to = position_of(region.to, to);
  plan.from = position_of(region.from, from);
  int64_t to_row = 0, from_row = 0;  // sizes of the dimensions that change between the two
  for (auto d = region.dimensions.rbegin(); d != region.dimensions.rend(); ++d) {
    const auto target = distance_of(d->to_step, d->size, to);
    const auto source = distance_of(d->from_step, d->size, from);
    if (!target || !source) return std::nullopt;
    const Walk step{d->size, target->count, source->count};
    if (target->rows && source->rows) {
      if (plan.rows == 1 && step.to == 1 && step.from == 1) {
        plan.rows = step.size;
      } else {
        plan.row_loops.push_back(step);
      }
    } else if (!target->rows && !source->rows) {
      plan.column_loops.push_back(step);
    } else if (target->rows) {
      if (to_row != 0 || step.to != 1 || step.from != 1) return std::nullopt;
      to_row = step.size;
    } else {
      if (from_row != 0 || step.to != 1 || step.from != 1) return std::nullopt;
      from_row = step.size;
    }
  }
  plan.turns = to_row != 0 || from_row != 0;
  if (plan.turns) {
    // Of a transpose both must be there, and rows that stay rows would be a third.
    // Channels that a cut made columns would be stored element by element.
    const bool is_cut = region.dimensions.size() != given.dimensions.size();
    if (to_row == 0 || from_row == 0 || plan.rows != 1 || is_cut) return std::nullopt;
    plan.rows = to_row;
    plan.columns = from_row;
    return plan;
  }
  const size_t inside = std::min<size_t>(3, plan.column_loops.size());
  plan.pattern.assign(plan.column_loops.begin(),
                      plan.column_loops.begin() + static_cast<ptrdiff_t>(inside));
  plan.column_loops.erase(plan.column_loops.begin(),
                          plan.column_loops.begin() + static_cast<ptrdiff_t>(inside));
  return plan;
}

// One instruction: rows [row, row + parts) of two tiles, columns from the first ones on.
struct Copy {
  size_t region = 0;
  uint32_t parts = 1, width = 0;  // width: columns of a turned block
  Position to, from;
};

bool may_start(int64_t row, int64_t parts) {
  const int64_t start = row % kLanes;
  if (start + parts > kLanes) return false;
  return parts > 64 ? start == 0 : parts > 32 ? start % 64 == 0 : start % 32 == 0;
}

// All combinations of the loops.
void positions(const Plan& plan, std::vector<std::pair<Position, Position>>& list) {
  list = {{plan.to, plan.from}};
  const auto repeat = [&](const Walk& step, bool rows) {
    std::vector<std::pair<Position, Position>> more;
    for (const auto& [to, from] : list) {
      for (int64_t i = 0; i < step.size && more.size() <= 4 * kMostCopies; ++i) {
        Position target = to, source = from;
        (rows ? target.row : target.column) += i * step.to;
        (rows ? source.row : source.column) += i * step.from;
        more.emplace_back(target, source);
      }
    }
    list = std::move(more);
  };
  for (const Walk& step : plan.row_loops) repeat(step, true);
  for (const Walk& step : plan.column_loops) repeat(step, false);
}

struct Choice {
  Layout layout;
  std::vector<Plan> plans;  // by region
  std::vector<Copy> copies;
  bool same = false;  // the memory of the operand is the value
};

// Blocks of rows, cut where tiles end and where lanes do not allow more.
bool cut_rows(const Plan& plan, size_t region, std::vector<Copy>& copies) {
  std::vector<std::pair<Position, Position>> list;
  positions(plan, list);
  for (const auto& [to, from] : list) {
    for (int64_t row = 0; row < plan.rows;) {
      int64_t parts = std::min(
          {plan.rows - row, kLanes - (to.row + row) % kLanes, kLanes - (from.row + row) % kLanes});
      while (parts > 32 && !(may_start(to.row + row, parts) && may_start(from.row + row, parts))) {
        parts = parts > 64 ? 64 : 32;
      }
      if (!may_start(to.row + row, parts) || !may_start(from.row + row, parts)) return false;
      copies.push_back({region,
                        static_cast<uint32_t>(parts),
                        0,
                        {to.row + row, to.column},
                        {from.row + row, from.column}});
      if (copies.size() > kMostCopies) return false;
      row += parts;
    }
  }
  return true;
}

bool is_same(const Plan& plan, const Layout& to, const Layout& from) {
  if (plan.turns || !plan.row_loops.empty() || !plan.column_loops.empty()) return false;
  if (plan.rows != to.rows || to.rows != from.rows || to.columns() != from.columns()) return false;
  int64_t count = 1;
  for (const Walk& step : plan.pattern) {
    if (step.to != step.from) return false;
    count *= step.size;
  }
  return plan.to.row == plan.from.row && plan.to.column == 0 && plan.from.column == 0 &&
         count == to.columns();
}

std::optional<Choice> choice_for(Workspace& work, const Node& node, const Layout& to) {
  Choice program{to, {}, {}};
  for (const graph::Region& region : node.regions) {
    const Resident from = work.residents.find(node.operands[region.operand]);
    if (!from.present()) return std::nullopt;
    const auto plan = plan_of(region, to, from.layout);
    if (!plan) return std::nullopt;
    const size_t number = program.plans.size();
    if (node.regions.size() == 1 && is_same(*plan, to, from.layout)) {
      program.same = true;
      return program;
    }
    if (!plan->turns && !cut_rows(*plan, number, program.copies)) return std::nullopt;
    if (plan->turns) {
      if (!graph::is_real(node.type)) return std::nullopt;
      std::vector<std::pair<Position, Position>> list;
      positions(*plan, list);
      for (const auto& [target, source] : list) {
        for (int64_t row = 0; row < plan->rows; row += kLanes) {
          for (int64_t column = 0; column < plan->columns; column += kLanes) {
            Copy copy{number, 0, 0, target, source};
            copy.to.row += row;
            copy.to.column += column;
            copy.from.row += column;
            copy.from.column += row;
            const int64_t rows = std::min(kLanes, plan->rows - row);
            const int64_t columns = std::min(kLanes, plan->columns - column);
            if (!may_start(copy.to.row, rows) || !may_start(copy.from.row, columns)) {
              return std::nullopt;
            }
            copy.parts = static_cast<uint32_t>(rows);
            copy.width = static_cast<uint32_t>(columns);
            program.copies.push_back(copy);
            if (program.copies.size() > 4 * kMostCopies) return std::nullopt;
          }
        }
      }
    }
    program.plans.push_back(*plan);
  }
  return program;
}

// Every way to see the shape as three dimensions.
std::vector<Layout> layouts_of(const graph::Shape& shape) {
  std::vector<Layout> list;
  const int64_t elements = graph::elements_of(shape);
  int64_t outer = 1;
  for (size_t i = 0; i <= shape.size(); ++i) {
    int64_t rows = 1;
    for (size_t j = i; j <= shape.size(); ++j) {
      list.push_back({outer, rows, elements / outer / rows});
      if (j < shape.size()) rows *= shape[j];
    }
    if (i < shape.size()) outer *= shape[i];
  }
  return list;
}

TileAccess columns_of(const Resident& resident, const Position& at, uint32_t parts,
                      const std::vector<Walk>& steps, bool to) {
  const Tile& tile = *resident.tiles[static_cast<size_t>(at.row / kLanes)];
  TileAccess access =
      tile.at(static_cast<uint32_t>(at.row % kLanes), parts, static_cast<uint32_t>(at.column), 1);
  access.ndim = std::max<uint32_t>(1, static_cast<uint32_t>(steps.size()));
  for (size_t d = 0; d < steps.size(); ++d) {
    access.size[d] = static_cast<uint32_t>(steps[d].size);
    access.step[d] = static_cast<int32_t>(to ? steps[d].to : steps[d].from);
  }
  return access;
}

void emit(Workspace& work, const Node& node, const Choice& program, const Resident& result) {
  uint64_t covered = 0;
  for (const graph::Region& region : node.regions) {
    uint64_t count = 1;
    for (const Dimension& d : region.dimensions) count *= static_cast<uint64_t>(d.size);
    covered += count;
  }
  if (covered < static_cast<uint64_t>(program.layout.elements())) {
    for (int64_t tile = 0; tile < program.layout.tiles(); ++tile) {
      TileAccess all = result.tiles[static_cast<size_t>(tile)]->at(
          0, program.layout.parts(tile), 0, static_cast<uint32_t>(program.layout.columns()));
      all.dtype = NEURON_DTYPE_U32;
      work.program.memset(Engine::kPool, all, fill_bits(node));
    }
  }
  std::vector<Tile> banks;
  size_t next = 0;
  for (const Copy& copy : program.copies) {
    const Plan& plan = program.plans[copy.region];
    const Resident from = work.residents.find(node.operands[node.regions[copy.region].operand]);
    TileAccess source, target;
    if (plan.turns) {
      while (banks.size() < 4) banks.push_back(work.program.psum("turned", kLanes, kLanes));
      const Tile& bank = banks[next % banks.size()];
      const std::vector<Walk> across = {{copy.parts, 1, 1}}, along = {{copy.width, 1, 1}};
      source = bank.at(0, copy.parts, 0, copy.width);
      work.program.transpose(source, columns_of(from, copy.from, copy.width, across, false));
      target = columns_of(result, copy.to, copy.parts, along, true);
    } else {
      source = columns_of(from, copy.from, copy.parts, plan.pattern, false);
      target = columns_of(result, copy.to, copy.parts, plan.pattern, true);
    }
    if (!graph::is_real(node.type)) source.dtype = target.dtype = NEURON_DTYPE_U32;
    work.copy(target, source);
    ++next;
  }
  for (const Tile& bank : banks) work.program.release(bank);
}

// Brings a value here that a move takes to pieces: in HBM each would be a descriptor. False: it
// stays there.
bool fetch(Workspace& work, const Node& node, Value operand) {
  const graph::Shape& shape = work.node(operand).shape;
  if (node.operands.size() != 1 || shape.size() < 3) return false;
  const Layout layout{shape[0], shape[1], graph::elements_of(shape) / shape[0] / shape[1]};
  if (layout.columns() * layout.tiles() > kMostFetched) return false;
  uint64_t pieces = 0, covered = 0;
  for (const graph::Region& region : node.regions) {
    uint64_t count = 1, whole = 1;
    for (auto d = region.dimensions.rbegin(); d != region.dimensions.rend(); ++d) {
      count *= static_cast<uint64_t>(d->size);
      const auto run = static_cast<int64_t>(whole);
      if (count / static_cast<uint64_t>(d->size) == whole && d->from_step == run &&
          d->to_step == run) {
        whole *= static_cast<uint64_t>(d->size);
      }
    }
    pieces += count / whole;
    covered += count;
  }
  const bool pads = covered < static_cast<uint64_t>(graph::elements_of(node.shape));
  const auto rows = static_cast<uint64_t>(layout.outer * layout.rows);
  if (!pads && pieces <= kPiecesOfRow * rows) return false;
  return work.residents.load(operand, layout).present();
}

}  // namespace

std::optional<ColumnView> view_of(const graph::Region& region, const Layout& to,
                                  const Layout& from) {
  const auto plan = plan_of(region, to, from);
  if (!plan || plan->turns || !plan->row_loops.empty() || !plan->column_loops.empty()) {
    return std::nullopt;
  }
  if (plan->rows != to.rows || to.rows != from.rows || plan->to.row != 0 || plan->from.row != 0 ||
      plan->to.column != 0) {
    return std::nullopt;
  }
  ColumnView view{plan->from.column, {}};
  for (const Walk& step : plan->pattern) view.steps.push_back({step.size, step.to, step.from});
  std::sort(view.steps.begin(), view.steps.end(),
            [](const ColumnView::Step& a, const ColumnView::Step& b) { return a.to < b.to; });
  int64_t count = 1;
  for (const ColumnView::Step& step : view.steps) {
    if (step.to != count) return std::nullopt;
    count *= step.size;
  }
  if (count != to.columns()) return std::nullopt;
  return view;
}

bool emit_resident_move(Workspace& work, Value value) {
  const Node& node = work.node(value);
  if (!work.resident()) return false;
  for (const Value operand : node.operands) {
    if (!work.residents.has(operand) && !fetch(work, node, operand)) return false;
  }
  std::optional<Choice> best;
  for (const Layout& layout : layouts_of(node.shape)) {
    // Operands have 16-bit sizes and steps.
    if (layout.columns() > INT16_MAX) continue;
    const auto found = choice_for(work, node, layout);
    if (!found) continue;
    if (found->same) {
      Resident same = work.residents.find(node.operands[0]);
      same.layout = layout;
      work.residents.set(value, same);
      return true;
    }
    if (!best || found->copies.size() < best->copies.size()) best = found;
  }
  if (!best) return false;
  const Resident result = work.residents.allocate(value, best->layout);
  if (!result.present()) return false;
  for (const Value operand : node.operands) {
    if (work.residents.has(operand)) continue;
    work.residents.forget(value);
    return false;
  }
  emit(work, node, *best, result);
  return work.program.ok();
}

}  // namespace neuron::lowering
