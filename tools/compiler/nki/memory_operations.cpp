// SPDX-License-Identifier: Apache-2.0
// Calls of nki.isa that move data by DMA.
#include <algorithm>
#include <cmath>

#include "driver/isa/instruction.h"
#include "hw/udma.h"
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::Buffer;
using builder::Engine;
using builder::IndirectOptions;
using builder::Side;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kMostPieces = 4096;  // Transfers of one call
constexpr unsigned kAll = bit(Engine::kPe) | bit(Engine::kActivation) | bit(Engine::kPool) |
                          bit(Engine::kDve) | bit(Engine::kSp);

// SP starts loads, so that they run ahead of the engines. A store waits for its data; it is started
// by the engine with the least work, because it holds up what that engine does behind it.
Result<Engine> starter(Context& context, Record& record, bool load) {
  if (record.has("engine")) return context.engine(record, Engine::kSp, kAll, 0);
  return load ? Engine::kSp : context.engine(record, Engine::kPool, kAll & ~bit(Engine::kSp), 0);
}

// The operand with its partitions as a dimension, so that both sides of a transfer look alike.
std::vector<uint64_t> counts_of(const Operand& operand) {
  std::vector<uint64_t> counts;
  if (operand.on_chip) counts.push_back(operand.parts);
  for (const Span& span : operand.pattern) counts.push_back(span.count);
  return counts;
}

// Part `number` of dimension `at` of counts_of().
Operand part_of(const Operand& operand, size_t at, uint64_t number) {
  Operand part = operand;
  if (operand.on_chip) --at;
  const int64_t bytes =
      static_cast<int64_t>(number) * part.pattern[at].step * int64_t{isa::dtype_bytes(part.dtype)};
  part.offset = static_cast<uint64_t>(static_cast<int64_t>(part.offset) + bytes);
  part.pattern.erase(part.pattern.begin() + static_cast<ptrdiff_t>(at));
  return part;
}

// Dimensions of a transfer's side, with the run of bytes; partitions count as one.
size_t dimensions(const Operand& operand) {
  size_t count = operand.on_chip && operand.parts > 1 ? 1 : 0;
  int64_t run = 1;
  bool running = true;
  int64_t next = 0;
  for (size_t i = operand.pattern.size(); i > 0; --i) {
    const Span& span = operand.pattern[i - 1];
    if (span.count == 1) continue;
    if (running && span.step == run) {
      run *= static_cast<int64_t>(span.count);
      continue;
    }
    if (running || span.step != next) ++count;
    running = false;
    next = span.step * static_cast<int64_t>(span.count);
  }
  return count + 1;
}

// What a transfer writes to PSUM, a product without `accumulate` must not take for its own.
Result<void> wrote(Context& context, Record& record, const Operand& to) {
  if (!context.memory.in_psum(to)) return {};
  NEURON_TRY(target, context.memory.tile(to));
  context.accumulation.written(target, false, record.line());
  return {};
}

// The class of service of the record's transfers; the recorder leaves 0 out.
Result<uint8_t> priority(Context& context, Record& record) {
  if (!record.has("priority")) return uint8_t{0};
  const uint64_t number = record.count("priority", NEURON_DMA_CLASSES - 1);
  NEURON_CHECK(record.result());
  NEURON_CHECK(context.needs_generation(4, "a priority of a transfer"));
  return static_cast<uint8_t>(number);
}

// `left`: how many transfers the call may still have.
Result<void> copy(Context& context, Engine engine, const Operand& to, const Operand& from,
                  uint8_t service_class, size_t& left) {
  constexpr size_t kMost = 4;
  if (left == 0) {
    return fail(NRT_INVALID, "the call needs more than {} transfers; use several calls",
                kMostPieces);
  }
  if (dimensions(to) > kMost || dimensions(from) > kMost) {
    // A dimension that both sides have, below the partitions, becomes several transfers.
    const auto a = counts_of(to), b = counts_of(from);
    for (size_t d = 1; a == b && d < a.size(); ++d) {
      if (a[d] == 1 || a[d] > kMostPieces) continue;
      for (uint64_t i = 0; i < a[d]; ++i) {
        NEURON_CHECK(
            copy(context, engine, part_of(to, d, i), part_of(from, d, i), service_class, left));
      }
      return {};
    }
    return fail(NRT_INVALID,
                "a transfer has at most 4 dimensions on each side, and these need {} and {}; use "
                "several calls",
                dimensions(to), dimensions(from));
  }
  --left;
  NEURON_TRY(target, context.memory.side(to, true));
  NEURON_TRY(source, context.memory.side(from, false));
  const auto operation =
      static_cast<uint8_t>(to.dtype != from.dtype ? NEURON_DMA_CAST : NEURON_DMA_COPY);
  if (context.in_while()) {
    // How often, the device decides: it writes the descriptors itself.
    context.program.dma_generate(target, source, operation, 0, service_class);
  } else {
    context.program.dma_compute(engine, target, {source},
                                {.operation = operation, .priority = service_class});
  }
  return {};
}

Result<void> dma_copy(Context& context, Record& record) {
  const Operand to = record.operand("dst"), from = record.operand("src");
  NEURON_CHECK(record.result());
  NEURON_TRY(service_class, priority(context, record));
  NEURON_TRY(engine, starter(context, record, !from.on_chip));
  size_t left = kMostPieces;
  NEURON_CHECK(copy(context, engine, to, from, service_class, left));
  return wrote(context, record, to);
}

// dst[c, ..., r] = src[r, ..., c]: the outermost and the innermost dimension change places.
Result<void> dma_transpose(Context& context, Record& record) {
  const Operand to = record.operand("dst"), from = record.operand("src");
  NEURON_CHECK(record.result());
  NEURON_TRY(service_class, priority(context, record));
  NEURON_TRY(engine, starter(context, record, !from.on_chip));
  const auto a = counts_of(to), b = counts_of(from);
  if (a.size() != b.size() || a.size() < 2 || a.front() != b.back() || a.back() != b.front() ||
      !std::equal(a.begin() + 1, a.end() - 1, b.begin() + 1)) {
    return fail(NRT_INVALID,
                "dma_transpose exchanges the first and the last dimension; the destination's sizes "
                "are not those of the source, exchanged");
  }
  if (to.dtype != from.dtype || isa::dtype_bytes(to.dtype) == 1) {
    return fail(NRT_INVALID, "dma_transpose keeps a type of 2 or 4 bytes, found {} and {}",
                isa::dtype_name(from.dtype), isa::dtype_name(to.dtype));
  }
  uint64_t count = 1;
  for (size_t d = 1; d + 1 < a.size(); ++d) {
    count *= a[d];  // At most kMostPieces^2, because it ends at once
    if (a[d] > kMostPieces || count > kMostPieces) {
      return fail(
          NRT_INVALID,
          "dma_transpose of {} matrices or more; at most {} are possible, use several calls", count,
          kMostPieces);
    }
  }
  if (a.front() > UINT32_MAX || a.back() > UINT32_MAX) {
    return fail(NRT_INVALID, "dma_transpose of a matrix of {} by {}; at most {} are possible",
                a.back(), a.front(), UINT32_MAX);
  }
  std::vector<std::pair<Operand, Operand>> blocks = {{to, from}};
  for (size_t d = a.size() - 2; d > 0; --d) {
    std::vector<std::pair<Operand, Operand>> parts;
    for (const auto& [target, source] : blocks) {
      for (uint64_t i = 0; i < a[d]; ++i) {
        parts.emplace_back(part_of(target, d, i), part_of(source, d, i));
      }
    }
    blocks = std::move(parts);
  }
  for (const auto& [target_part, source_part] : blocks) {
    NEURON_TRY(target, context.memory.side(target_part, true));
    NEURON_TRY(source, context.memory.side(source_part, false));
    context.program.dma_compute(engine, target, {source},
                                {.operation = NEURON_DMA_TRANSPOSE,
                                 .transpose_shape = {1, static_cast<uint32_t>(b.front()),
                                                     static_cast<uint32_t>(b.back()), 1},
                                 .priority = service_class});
  }
  return wrote(context, record, to);
}

Result<void> dma_compute(Context& context, Record& record) {
  const Operand to = record.operand("dst");
  const auto sources = record.operands("srcs", 16);
  const auto scales = record.numbers("scales", 16);
  const std::string op = record.text_or("alu", "add");
  NEURON_CHECK(record.result());
  const uint8_t operation = op == "add"       ? NEURON_DMA_ADD
                            : op == "maximum" ? NEURON_DMA_MAX
                            : op == "minimum" ? NEURON_DMA_MIN
                                              : NEURON_DMA_REDUCE;
  if (operation == NEURON_DMA_REDUCE || sources.empty()) {
    return fail(NRT_INVALID,
                "dma_compute adds, or takes the maximum or minimum of, 1 to 16 "
                "sources; found {} of {}",
                op, sources.size());
  }
  NEURON_TRY(engine, starter(context, record, true));
  NEURON_TRY(target, context.memory.side(to, true));
  std::vector<Side> sides;
  for (const Operand& source : sources) {
    NEURON_TRY(side, context.memory.side(source, false));
    sides.push_back(side);
  }
  builder::ComputeOptions options{.operation = operation};
  if (std::any_of(scales.begin(), scales.end(), [](double scale) { return scale != 1; })) {
    if (operation != NEURON_DMA_ADD || scales.size() != sources.size()) {
      return fail(NRT_INVALID,
                  "dma_compute with {} scales of {} sources and {}; expected add, and a scale for "
                  "each source",
                  scales.size(), sources.size(), op);
    }
    options.operation = NEURON_DMA_FMA;
    for (const double scale : scales) {
      if (!std::isfinite(static_cast<float>(scale))) {
        return fail(NRT_INVALID, "the scale {} of dma_compute is no finite number of fp32", scale);
      }
      options.scales.push_back(static_cast<float>(scale));
    }
  }
  NEURON_TRY(service_class, priority(context, record));
  options.priority = service_class;
  options.constant = operation == NEURON_DMA_MAX ? -__builtin_inff() : __builtin_inff();
  context.program.dma_compute(engine, target, sides, options);
  return wrote(context, record, to);
}

// A transfer of one row for each partition, by an index tile. `table` is the tensor: its outermost
// span is a row's distance, the others are what moves of a row.
struct Indexed {
  TileAccess tile, index;
  Buffer rows;
  IndirectOptions options;
  TileAccess aligned;  // In place of `tile`, if that begins where the instruction cannot reach
};

// The instruction's operands begin at a quadrant and have the type of the rows; other transfers
// reach any partition and cast, so tiles of the lowering's own stand in for what does not fit.
Result<void> align(Context& context, Indexed& indexed, uint8_t dtype) {
  if (!may_start(indexed.index)) {
    NEURON_TRY(index, context.memory.own_tile(NEURON_SPACE_SBUF, "aligned index",
                                              indexed.index.parts, 1, NEURON_DTYPE_U32));
    NEURON_CHECK(copy_tile(context, index.all(), indexed.index));
    indexed.index = index.all();
  }
  indexed.aligned = indexed.tile;
  if (!may_start(indexed.tile) || indexed.tile.dtype != dtype) {
    NEURON_TRY(tile,
               context.memory.own_tile(NEURON_SPACE_SBUF, "aligned rows", indexed.tile.parts,
                                       static_cast<uint32_t>(indexed.tile.elements()), dtype));
    indexed.aligned = tile.all();
  }
  return {};
}

bool stands_in(const Indexed& indexed) { return indexed.aligned.tile != indexed.tile.tile; }

Result<Indexed> indexed(Context& context, Record& record, const char* tile_key,
                        const char* table_key) {
  const Operand tile = record.operand(tile_key), table = record.operand(table_key);
  const Operand index = record.operand("index");
  const uint64_t distance = record.count("row_elements", uint64_t{1} << 31);
  Indexed result;
  result.options.skip = record.flag("skip");
  result.options.accumulate = record.flag("accumulate");
  NEURON_CHECK(record.result());
  NEURON_TRY(service_class, priority(context, record));
  result.options.priority = service_class;
  NEURON_TRY(side, context.memory.buffer(table, false));
  NEURON_TRY(access, context.memory.tile(tile));
  NEURON_TRY(indices, context.memory.tile(index));
  const uint64_t row_bytes = distance * isa::dtype_bytes(table.dtype);
  const uint64_t moved = access.elements() * isa::dtype_bytes(table.dtype);
  if (side.ndim != 1 || side.size[0] != moved) {
    return fail(NRT_INVALID,
                "a transfer by index moves neighbouring elements of each row, as many as a "
                "partition of the tile has");
  }
  if (isa::dtype_bytes(index.dtype) != 4 || indices.elements() != 1 ||
      indices.parts != access.parts) {
    return fail(
        NRT_INVALID,
        "the index of a transfer is one 32-bit integer for each of the {} partitions; found "
        "[{}, {}] of {}",
        access.parts, indices.parts, indices.elements(), isa::dtype_name(index.dtype));
  }
  indices.dtype = NEURON_DTYPE_U32;
  result.tile = access;
  result.index = indices;
  NEURON_CHECK(align(context, result, table.dtype));
  Operand whole = table;
  whole.offset = 0;
  NEURON_TRY(rows, context.memory.rows(whole, distance));
  result.rows = rows;
  result.options.first = side.offset;
  result.options.row_bytes = moved;
  // Rows may overlap: what counts is that the last one ends inside the tensor.
  const uint64_t bytes = rows.rows * row_bytes;
  if (side.offset + moved > bytes) {
    return fail(NRT_INVALID, "a row of {} bytes from byte {} leaves the {} bytes of the tensor",
                moved, side.offset, bytes);
  }
  result.options.rows = (bytes - side.offset - moved) / row_bytes + 1;
  return result;
}

Result<void> dma_gather(Context& context, Record& record) {
  NEURON_TRY(parts, indexed(context, record, "dst", "src"));
  // What is left or added to has to be there before.
  if (stands_in(parts) && (parts.options.skip || parts.options.accumulate)) {
    NEURON_CHECK(copy_tile(context, parts.aligned, parts.tile));
  }
  context.program.dma_gather(parts.aligned, parts.rows, parts.index, parts.options);
  return stands_in(parts) ? copy_tile(context, parts.tile, parts.aligned) : Result<void>();
}

Result<void> dma_scatter(Context& context, Record& record) {
  NEURON_TRY(parts, indexed(context, record, "src", "dst"));
  if (stands_in(parts)) NEURON_CHECK(copy_tile(context, parts.aligned, parts.tile));
  context.program.dma_scatter(parts.rows, parts.index, parts.aligned, parts.options);
  return {};
}

constexpr NamedOperation kMemoryOperations[] = {{"dma_copy", dma_copy},
                                                {"dma_transpose", dma_transpose},
                                                {"dma_compute", dma_compute},
                                                {"dma_gather", dma_gather},
                                                {"dma_scatter", dma_scatter}};

}  // namespace

bool may_start(const TileAccess& access) {
  const uint32_t step = access.parts > 64 ? 128 : access.parts > 32 ? 64 : 32;
  return access.start % step == 0;
}

Result<void> copy_tile(Context& context, const TileAccess& to, const TileAccess& from) {
  const auto operation =
      static_cast<uint8_t>(to.dtype != from.dtype ? NEURON_DMA_CAST : NEURON_DMA_COPY);
  if (context.in_while()) {
    context.program.dma_generate(to, from, operation);
  } else {
    context.program.dma_compute(Engine::kPool, to, {from}, {.operation = operation});
  }
  return {};
}

Operation find_memory_operation(std::string_view name) {
  return find_operation(kMemoryOperations, name);
}

}  // namespace neuron::nki
