// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of rows whose numbers are data: transfers that Pool generates.
#include <algorithm>

#include "tools/compiler/lowering/alu.h"
#include "tools/compiler/lowering/functions.h"
#include "tools/compiler/lowering/lanes.h"
#include "tools/compiler/lowering/tasks.h"

namespace neuron::lowering {
namespace {

struct Rows {
  Tile data, numbers;
};

Rows allocate(Workspace& work, uint32_t columns) {
  return {work.program.sbuf("rows", NEURON_PARTITIONS, columns, NEURON_DTYPE_F32),
          work.program.sbuf("numbers", NEURON_PARTITIONS, 1, NEURON_DTYPE_U32)};
}

void release(Workspace& work, const Rows& rows) {
  work.program.release(rows.data);
  work.program.release(rows.numbers);
}

// Sums and products keep the low bits of their type.
void wrap(Workspace& work, graph::Type type, const Tile& data, uint32_t columns) {
  if (graph::is_real(type) || graph::type_bytes(type) >= 4) return;
  for (uint32_t first = 0; first < columns; first += Workspace::kWidth) {
    const uint32_t count = std::min(columns - first, uint32_t{Workspace::kWidth});
    Lanes lanes(work, 1, count);
    const TileAccess part = data.at(0, 1, first, count);
    const Lane narrow = wrapped(lanes, type, {nullptr, data.dtype, part});
    work.program.tensor_copy(Engine::kDve, part, lanes.access(narrow));
  }
}

}  // namespace

void emit_gather(Workspace& work, Value value) {
  const Node& node = work.node(value);
  work.program.section(node.origin);
  const auto columns = static_cast<uint32_t>(node.columns);
  const Buffer table = work.table(node.operands[0], static_cast<uint64_t>(node.depth), columns);
  const Buffer numbers = work.place(node.operands[1]);
  const Buffer to = work.make_place(value);
  work.trim();
  work.trim_stream();
  const Rows rows = allocate(work, columns);
  const Tile data = rows.data.as(table.dtype);
  for (int64_t first = 0; first < node.rows && work.program.ok(); first += NEURON_PARTITIONS) {
    const auto parts =
        static_cast<uint32_t>(std::min<int64_t>(NEURON_PARTITIONS, node.rows - first));
    const auto begin = static_cast<uint64_t>(first);
    work.load(rows.numbers.at(0, parts, 0, 1), Workspace::rows(numbers, begin, parts, 1));
    // Rows that the data does not have stay 0.
    work.program.memset(Engine::kDve, data.at(0, parts, 0, columns), 0);
    work.program.dma_gather(data.at(0, parts, 0, columns), table, rows.numbers.at(0, parts, 0, 1),
                            {.skip = true});
    work.store(Workspace::rows(to, begin * columns, parts, columns), data.at(0, parts, 0, columns));
  }
  release(work, rows);
}

void emit_scatter(Workspace& work, Value value) {
  const Node& node = work.node(value);
  work.program.section(node.origin);
  const auto columns = static_cast<uint32_t>(node.columns);
  const Buffer from = work.place(node.operands[0]);
  const Buffer numbers = work.place(node.operands[1]);
  const Buffer updates = work.place(node.operands[2]);
  Buffer table = work.make_place(value);
  const auto elements = static_cast<uint64_t>(graph::elements_of(node.shape));
  work.copy(Workspace::rows(table, 0, 1, static_cast<uint32_t>(elements)),
            Workspace::rows(from, 0, 1, static_cast<uint32_t>(elements)));
  table.rows = static_cast<uint64_t>(node.depth);
  table.columns = columns;
  work.trim();
  work.trim_stream();
  const Rows rows = allocate(work, columns), old = allocate(work, columns);
  const Tile data = rows.data.as(table.dtype), before = old.data.as(table.dtype);
  const bool real = graph::is_real(node.type);
  // Rows that are combined may have equal numbers: each sees what the one before has written.
  const int64_t step = node.replaces ? NEURON_PARTITIONS : 1;
  for (int64_t first = 0; first < node.rows && work.program.ok(); first += step) {
    const auto parts = static_cast<uint32_t>(std::min(step, node.rows - first));
    const auto begin = static_cast<uint64_t>(first);
    const TileAccess index = rows.numbers.at(0, parts, 0, 1);
    const TileAccess now = data.at(0, parts, 0, columns);
    work.load(index, Workspace::rows(numbers, begin, parts, 1));
    work.load(now, Workspace::rows(updates, begin * columns, parts, columns));
    if (!node.replaces) {
      const TileAccess there = before.at(0, parts, 0, columns);
      work.program.memset(Engine::kDve, there, 0);
      work.program.dma_gather(there, table, index, {.skip = true});
      const auto as = [&](TileAccess access) {
        if (!real) access.dtype = order_dtype(node.type);
        return access;
      };
      work.program.tensor_tensor(real ? Engine::kDve : Engine::kPool, as(now), as(there),
                                 alu_of(node.function), as(now));
      wrap(work, node.type, data, columns);
    }
    work.program.dma_scatter(table, index, now, {.skip = true});
  }
  release(work, rows);
  release(work, old);
}

}  // namespace neuron::lowering
