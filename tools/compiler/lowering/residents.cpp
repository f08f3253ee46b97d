// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/residents.h"

#include <algorithm>
#include <utility>

#include "tools/compiler/lowering/row_numbers.h"
#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {
namespace {

// Columns of a value on all partitions; longer ones are read from HBM.
constexpr int64_t kMostReplicated = 4096;

// From so many rows on, one by one would take longer.
constexpr int64_t kTurnedRows = 32;

// Rows of the tile, in HBM.
BufferAccess rows_of(const Buffer& buffer, const Layout& layout, int64_t tile) {
  BufferAccess access;
  access.buffer = buffer.index;
  access.dtype = buffer.dtype;
  access.offset = static_cast<uint64_t>(tile * Layout::kLanes * layout.inner) * 4;
  access.ndim = 3;
  access.size = {static_cast<uint64_t>(layout.inner) * 4, static_cast<uint64_t>(layout.outer),
                 layout.parts(tile), 1};
  access.step = {1, layout.rows * layout.inner * 4, layout.inner * 4, 0};
  return access;
}

}  // namespace

builder::TileAccess Resident::at(int64_t tile, int64_t outer, uint32_t outers, int64_t inner,
                                 uint32_t inners) const {
  const Tile& whole = *tiles[replicated ? 0 : static_cast<size_t>(tile)];
  const auto first = static_cast<uint32_t>(outer * layout.inner + inner);
  const uint32_t parts = replicated ? NEURON_PARTITIONS : layout.parts(tile);
  if (outers == 1 || inners == static_cast<uint32_t>(layout.inner)) {
    return whole.at(0, parts, first, outers * inners);
  }
  return whole.pattern(0, parts, first, {inners, outers}, {1, static_cast<int32_t>(layout.inner)});
}

std::optional<int32_t> Resident::pitch() const {
  if (replicated || tiles.size() < 2) return 0;
  const auto distance = [&](size_t i) {
    return (int64_t{tiles[i + 1]->base} - int64_t{tiles[i]->base}) / 4;
  };
  for (size_t i = 1; i + 1 < tiles.size(); ++i) {
    if (distance(i) != distance(0)) return std::nullopt;
  }
  // Operands have 16-bit steps.
  if (distance(0) < layout.columns() || distance(0) > INT16_MAX) return std::nullopt;
  return static_cast<int32_t>(distance(0));
}

builder::TileAccess Resident::across(int64_t tile, uint32_t count) const {
  Tile all = *tiles[replicated ? 0 : static_cast<size_t>(tile)];
  const auto columns = static_cast<uint32_t>(layout.columns());
  const int32_t step = pitch().value_or(0);
  all.columns = static_cast<uint32_t>(step) * (count - 1) + columns;
  return all.pattern(0, NEURON_PARTITIONS, 0, {columns, count}, {1, step});
}

Residents::Residents(Workspace& work, uint32_t columns)
    : work_(work), arena_(work.program, columns) {}

Resident Residents::find(Value value) const {
  const auto found = table_.find(value);
  return found == table_.end() ? Resident{} : found->second;
}

void Residents::expire(size_t node) {
  const auto over = [&](const auto& entry) {
    return last_use_[static_cast<size_t>(entry.first)] <= node;
  };
  std::erase_if(table_, over);
  std::erase_if(replicated_, over);
  const int64_t need = needs_[node] + needs_[node] / 8;
  arena_.limit(static_cast<uint32_t>(std::min<int64_t>(need, Workspace::kResidentColumns)));
}

// Of the values that no task holds, the one that is needed last.
bool Residents::spill_one() {
  std::map<const Tile*, long> entries;
  for (const auto& [value, resident] : table_) ++entries[resident.tiles[0].get()];
  const auto held = [&](const Resident& resident) {
    const auto own = entries.find(resident.tiles[0].get());
    return resident.tiles[0].use_count() > (own == entries.end() ? 1 : own->second);
  };
  for (auto entry = replicated_.begin(); entry != replicated_.end(); ++entry) {
    if (held(entry->second)) continue;
    replicated_.erase(entry);
    return true;
  }
  Value last = graph::kNone;
  for (const auto& [value, resident] : table_) {
    if (held(resident)) continue;
    if (last < 0 || last_use_[static_cast<size_t>(value)] > last_use_[static_cast<size_t>(last)]) {
      last = value;
    }
  }
  if (last < 0) return false;
  const Tile* tile = table_[last].tiles[0].get();
  std::vector<Value> same;
  for (const auto& [value, resident] : table_) {
    if (resident.tiles[0].get() == tile) same.push_back(value);
  }
  for (const Value value : same) {
    work_.place(value);
    table_.erase(value);
  }
  return true;
}

Resident Residents::room(const Layout& layout) {
  Resident resident;
  resident.layout = layout;
  if (layout.columns() > UINT32_MAX / 8) return {};
  if (layout.tiles() > 1 && layout.columns() <= Layout::kFewColumns) {
    resident.tiles = arena_.take_row(static_cast<uint32_t>(layout.columns()),
                                     static_cast<size_t>(layout.tiles()));
    if (resident.present()) return resident;
  }
  for (int64_t tile = 0; tile < layout.tiles(); ++tile) {
    auto taken = arena_.take(static_cast<uint32_t>(layout.columns()));
    if (!taken) return {};
    resident.tiles.push_back(std::move(taken));
  }
  return resident;
}

Resident Residents::scratch(const Layout& layout) {
  for (;;) {  // bounded: each round has one value less
    Resident resident = room(layout);
    if (resident.present()) return resident;
    if (!work_.program.ok()) return {};
    if (!work_.give_back_lent() && !spill_one()) return {};
  }
}

Resident Residents::succeed(Value value, Value old, const std::vector<Value>& spent) {
  const Resident resident = find(old);
  if (!resident.present() || resident.replicated) return {};
  std::vector<Value> names;
  for (const auto& [name, other] : table_) {
    if (other.tiles[0] == resident.tiles[0]) names.push_back(name);
  }
  const bool all = std::all_of(names.begin(), names.end(), [&](Value name) {
    return std::count(spent.begin(), spent.end(), name) != 0;
  });
  // Copies are those of the names, the one that the caller has, and the one here.
  if (!all || resident.tiles[0].use_count() != static_cast<long>(names.size()) + 2) return {};
  for (const Value name : names) table_.erase(name);
  table_[value] = resident;
  return resident;
}

Resident Residents::allocate(Value value, const Layout& layout) {
  Resident resident = scratch(layout);
  if (resident.present()) table_[value] = resident;
  return resident;
}

// One transfer for all.
void Residents::load_numbers() {
  const std::vector<Value> values = std::exchange(numbers_, {});
  const Graph& graph = work_.graph;
  uint32_t columns = 0;
  for (const Value value : values) columns += static_cast<uint32_t>(number_columns(graph, value));
  const Resident whole = scratch({1, Layout::kLanes, columns});
  if (!whole.present()) return;
  const std::shared_ptr<const Tile>& room = whole.tiles[0];
  const Buffer numbers = work_.constant(NEURON_DTYPE_F32, uint64_t{columns} * NEURON_PARTITIONS,
                                        number_bytes(graph, values));
  work_.load(room->all(), Workspace::rows(numbers, 0, NEURON_PARTITIONS, columns));
  uint32_t first = 0;
  for (const Value value : values) {
    Resident resident;
    resident.layout = {1, graph::elements_of(work_.node(value).shape), 1};
    for (int64_t tile = 0; tile < resident.layout.tiles(); ++tile) {
      auto some = std::make_unique<Tile>(*room);
      some->base += first++ * 4;
      some->columns = 1;
      resident.tiles.emplace_back(some.release(), [room](const Tile* held) { delete held; });
    }
    if (!has(value)) table_[value] = resident;
  }
}

Resident Residents::load(Value value, const Layout& layout) {
  if (layout.columns() == 1 && std::count(numbers_.begin(), numbers_.end(), value) != 0) {
    load_numbers();
  }
  const Resident known = find(value);
  if (known.present() && known.layout == layout) return known;
  // Rows of very few elements would each be a descriptor.
  const Buffer from = work_.place(value);
  if (!from.present()) return {};
  Resident resident = scratch(layout);
  if (!resident.present()) return {};
  if (layout.columns() == 1 && layout.rows >= kTurnedRows && load_turned(resident, from)) {
    if (!known.present()) table_[value] = resident;
    return resident;
  }
  for (int64_t tile = 0; tile < layout.tiles(); ++tile) {
    const TileAccess to = resident.at(tile, 0, static_cast<uint32_t>(layout.outer), 0,
                                      static_cast<uint32_t>(layout.inner));
    TileAccess typed = to;
    typed.dtype = from.dtype;
    work_.load(typed, rows_of(from, layout, tile));
  }
  if (!known.present()) table_[value] = resident;
  return resident;
}

// A number for each row: one descriptor for all of them, and PE spreads them over the lanes.
bool Residents::load_turned(const Resident& resident, const Buffer& from) {
  const Layout& layout = resident.layout;
  const Resident row = room({1, 1, layout.rows});
  if (!row.present() || !work_.program.parts().psum.has_room(NEURON_PARTITIONS, 4)) return false;
  const auto count = static_cast<uint32_t>(layout.rows);
  TileAccess line = row.at(0, 0, 1, 0, count);
  line.dtype = from.dtype;
  work_.load(line, Workspace::rows(from, 0, 1, count));
  const Tile bank = work_.program.psum("turned", NEURON_PARTITIONS, 1, NEURON_DTYPE_U32);
  for (int64_t tile = 0; tile < layout.tiles(); ++tile) {
    const uint32_t parts = layout.parts(tile);
    TileAccess some = row.at(0, 0, 1, tile * Layout::kLanes, parts);
    some.dtype = NEURON_DTYPE_U32;
    const TileAccess turned = bank.at(0, parts, 0, 1);
    work_.program.transpose(turned, some);
    TileAccess to = resident.at(tile, 0, 1, 0, 1);
    to.dtype = NEURON_DTYPE_U32;
    work_.program.tensor_copy(Engine::kDve, to, turned);
  }
  work_.program.release(bank);
  return true;
}

Resident Residents::replicate(Value value) {
  const auto known = replicated_.find(value);
  if (known != replicated_.end()) return known->second;
  const int64_t elements = graph::elements_of(work_.node(value).shape);
  if (elements > kMostReplicated) return {};
  const Buffer from = work_.place(value);
  if (!from.present()) return {};
  Resident resident = scratch({1, 1, elements});
  if (!resident.present()) return {};
  resident.replicated = true;
  const auto columns = static_cast<uint32_t>(elements);
  BufferAccess row = Workspace::rows(from, 0, NEURON_PARTITIONS, columns);
  row.step[1] = 0;
  TileAccess to = resident.at(0, 0, 1, 0, columns);
  to.dtype = from.dtype;
  work_.load(to, row);
  replicated_[value] = resident;
  return resident;
}

void Residents::store(Value value, const Buffer& buffer) const {
  const Resident resident = find(value);
  const Layout& layout = resident.layout;
  for (int64_t tile = 0; tile < layout.tiles(); ++tile) {
    TileAccess from = resident.at(tile, 0, static_cast<uint32_t>(layout.outer), 0,
                                  static_cast<uint32_t>(layout.inner));
    from.dtype = buffer.dtype;
    work_.store(rows_of(buffer, layout, tile), from);
  }
}

}  // namespace neuron::lowering
