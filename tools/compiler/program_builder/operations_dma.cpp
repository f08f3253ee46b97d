// SPDX-License-Identifier: Apache-2.0
// The transfers of Program: prepared ones, which a trigger starts, and those that Pool generates.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "hw/address_map.h"
#include "hw/udma.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

Region region_of_side(const Side& side) {
  return side.on_chip.present() ? region_of(side.on_chip) : region_of(side.in_memory);
}

uint8_t dtype_of(const Side& side) {
  return side.on_chip.present() ? side.on_chip.dtype : side.in_memory.dtype;
}

}  // namespace

// SBUF as DMA sees it: partition p begins at p * NEURON_SBUF_PARTITION_STRIDE of variable "sbuf".
std::optional<BufferAccess> Program::on_chip_side(const TileAccess& access) {
  Draft check(NEURON_OP_NOP, NEURON_ENGINE_SP);
  check.from(access);
  if (!check.wrong.empty()) {
    fail(runtime::fail(NRT_INVALID, "{}", check.wrong));
    return std::nullopt;
  }
  if (access.space != NEURON_SPACE_SBUF) {
    fail(runtime::fail(NRT_INVALID,
                       "transfers reach SBUF only; copy the PSUM tile to SBUF with an engine"));
    return std::nullopt;
  }
  if (!schedule_.indexes().check(access.motions)) return std::nullopt;
  const auto [below, above] = schedule_.reach(access.advance, access.motions);
  const int64_t first = static_cast<int64_t>(access.first_byte()) + below;
  const int64_t end = static_cast<int64_t>(access.end_byte()) + above;
  if (first < 0 || end > int64_t{limits_.sbuf_partition_bytes}) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer moves with loops or numbers to bytes {} to {} of a partition of "
                       "SBUF, which has {}",
                       first, end, limits_.sbuf_partition_bytes));
    return std::nullopt;
  }
  const uint64_t element = isa::dtype_bytes(access.dtype);
  BufferAccess side;
  side.buffer = Transfer::kOnChip;
  side.dtype = access.dtype;
  side.advance = access.advance;
  side.motions = access.motions;
  side.offset = access.start * NEURON_SBUF_PARTITION_STRIDE + access.base;
  side.ndim = 1;
  side.size[0] = element;
  uint32_t d = 0;
  // Dimensions that continue the run are merged into it.
  while (d < access.ndim &&
         access.step[d] * static_cast<int64_t>(element) == static_cast<int64_t>(side.size[0])) {
    side.size[0] *= access.size[d++];
  }
  const auto add = [&](uint64_t size, int64_t step) {
    if (size == 1) return true;
    if (side.ndim == 4) return false;
    side.size[side.ndim] = size;
    side.step[side.ndim++] = step;
    return true;
  };
  bool fits = true;
  for (; d < access.ndim; ++d) {
    fits = fits && add(access.size[d], access.step[d] * static_cast<int64_t>(element));
  }
  fits = fits && add(access.parts, NEURON_SBUF_PARTITION_STRIDE);
  if (!fits) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer has at most 4 dimensions, partitions included; use several"));
    return std::nullopt;
  }
  return side;
}

bool Program::check_buffer_side(const BufferAccess& access, bool write) {
  if (!access.present() || access.buffer >= static_cast<int32_t>(buffers_.size())) {
    fail(runtime::fail(NRT_INVALID, "a buffer that was never declared is used"));
    return false;
  }
  const BufferInfo& info = buffers_[static_cast<size_t>(access.buffer)];
  if (!access.motions.fits()) {
    fail(runtime::fail(NRT_INVALID, "an access moves with more than {} indexes", Motions::kMost));
    return false;
  }
  if (!schedule_.indexes().check(access.motions)) return false;
  const Region region = region_of(access);
  const auto [below, above] = schedule_.reach(access.advance, access.motions);
  const int64_t first = static_cast<int64_t>(region.first) + below;
  const int64_t end = static_cast<int64_t>(region.end) + above;
  if (first < 0 || end > static_cast<int64_t>(info.bytes) || access.bytes() == 0) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer reaches bytes {} to {} of buffer \"{}\", which "
                       "has {}",
                       first, end, info.name, info.bytes));
    return false;
  }
  if (write && (info.kind == BufferKind::kInput || info.kind == BufferKind::kConstant)) {
    fail(runtime::fail(NRT_INVALID, "a transfer writes to {} \"{}\"",
                       info.kind == BufferKind::kInput ? "input" : "constant", info.name));
    return false;
  }
  return true;
}

std::optional<BufferAccess> Program::memory_side(const Side& side, bool write) {
  if (!schedule_.open()) return std::nullopt;
  if (!side.in_memory.present()) return on_chip_side(side.on_chip);
  if (!check_buffer_side(side.in_memory, write)) return std::nullopt;
  return side.in_memory;
}

void Program::transfer(unsigned engine, const Side& to, const std::vector<Side>& from,
                       const ComputeOptions& options) {
  schedule_.journal().next_operation();
  if (options.priority >= NEURON_DMA_CLASSES || (options.priority && !limits_.dma_priorities)) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer has priority {}; generation 4 has 0 to {}, and others have none",
                       options.priority, NEURON_DMA_CLASSES - 1));
    return;
  }
  const auto target = memory_side(to, true);
  if (!target) return;
  const bool copies = options.operation == NEURON_DMA_COPY;
  const bool recodes =
      options.operation == NEURON_DMA_COMPRESS || options.operation == NEURON_DMA_DECOMPRESS;
  const uint64_t wanted = target->bytes() / (copies ? 1 : isa::dtype_bytes(dtype_of(to)));
  Transfer entry;
  Schedule::Item item;
  for (const Side& side : from) {
    const auto source = memory_side(side, false);
    if (!source) return;
    const uint64_t given = source->bytes() / (copies ? 1 : isa::dtype_bytes(dtype_of(side)));
    if (given != wanted && !recodes) {
      const char* unit = copies ? "bytes" : "elements";
      fail(runtime::fail(NRT_INVALID, "a transfer moves {} {} to {} {}; expected equally many",
                         given, unit, wanted, unit));
      return;
    }
    entry.from.push_back(*source);
    item.reads.push_back(region_of_side(side));
  }
  entry.engine = engine;
  entry.to = *target;
  entry.compute = options;
  const char* direction = target->buffer == Transfer::kOnChip         ? "in"
                          : entry.from[0].buffer == Transfer::kOnChip ? "out"
                                                                      : "data";
  entry.queue = queue_name(engine, direction, options.priority);
  item.engine = engine;
  item.moves = true;
  item.writes = {region_of_side(to)};
  item.step.instruction.opcode = NEURON_OP_DMA_TRIGGER;
  item.step.instruction.engines = static_cast<uint8_t>(1u << engine);
  item.step.label = schedule_.journal().label(to.on_chip.tile, to.in_memory.buffer);
  item.step.transfer = schedule_.add_transfer(std::move(entry));
  schedule_.add(std::move(item));
}

void Program::dma(Engine owner, const TileAccess& to, const BufferAccess& from) {
  transfer(static_cast<unsigned>(owner), to, {from}, {.operation = NEURON_DMA_COPY});
}

void Program::dma(Engine owner, const BufferAccess& to, const TileAccess& from) {
  transfer(static_cast<unsigned>(owner), to, {from}, {.operation = NEURON_DMA_COPY});
}

void Program::dma(Engine owner, const BufferAccess& to, const BufferAccess& from) {
  transfer(static_cast<unsigned>(owner), to, {from}, {.operation = NEURON_DMA_COPY});
}

void Program::dma_compute(Engine owner, const Side& to, const std::vector<Side>& from,
                          const ComputeOptions& options) {
  if (from.empty() || from.size() > 16) {
    fail(runtime::fail(NRT_INVALID, "a transfer has {} sources, expected 1 to 16", from.size()));
    return;
  }
  const size_t scales = options.scales.size();
  if (scales != 0 && (options.operation != NEURON_DMA_FMA || scales != from.size())) {
    fail(runtime::fail(NRT_INVALID,
                       "a transfer of {} sources has {} scales; expected one for each, of fma",
                       from.size(), scales));
    return;
  }
  transfer(static_cast<unsigned>(owner), to, from, options);
}

namespace {

constexpr uint16_t kAllDmaEngines = 0xFFFF;

// An instruction has 32 bits for the size and the step of a dimension.
bool fit_dimensions(const BufferAccess& access) {
  bool fit = access.size[0] / isa::dtype_bytes(access.dtype) <= UINT32_MAX;
  for (uint32_t d = 1; d < access.ndim; ++d) {
    fit = fit && access.size[d] <= UINT32_MAX && access.step[d] >= INT32_MIN &&
          access.step[d] <= INT32_MAX;
  }
  return fit;
}

// The largest number that a register holds which is added to an address; it has 32 bits. Where
// there are more registers than an instruction binds, one holds their sum.
uint64_t furthest(const std::array<std::vector<uint64_t>, 2>& distances) {
  constexpr size_t kMostBound = std::tuple_size_v<decltype(isa::Instruction::bind)>;
  const bool summed = distances[0].size() + distances[1].size() > kMostBound;
  uint64_t largest = 0;
  for (const std::vector<uint64_t>& side : distances) {
    uint64_t sum = 0;
    for (uint64_t far : side) sum = summed ? sum + far : std::max(sum, far);
    largest = std::max(largest, sum);
  }
  return largest;
}

std::array<isa::DmaDimension, 4> dimensions_of(const BufferAccess& access) {
  const uint64_t element = isa::dtype_bytes(access.dtype);
  std::array<isa::DmaDimension, 4> dimensions{};
  dimensions[0] = {static_cast<uint32_t>(access.size[0] / element), static_cast<int32_t>(element)};
  for (uint32_t d = 1; d < access.ndim; ++d) {
    dimensions[d] = {static_cast<uint32_t>(access.size[d]), static_cast<int32_t>(access.step[d])};
  }
  return dimensions;
}

}  // namespace

void Program::generated(Draft draft, std::vector<AddressField> addresses) {
  draft.i.dma.mask = kAllDmaEngines;
  draft.i.dma.signal = true;
  if (!draft.wrong.empty()) fail(runtime::fail(NRT_INVALID, "{}", draft.wrong));
  if (!schedule_.open() || !check_instruction(draft.engine, draft.i)) return;
  // What moves in dma_generate is no operand, but an address.
  const bool moves_operands = draft.i.opcode != NEURON_OP_DMA_GENERATE && !draft.advances.empty();
  if (moves_operands && !check_reach(draft)) return;
  Schedule::Item item;
  item.engine = draft.engine;
  item.step.instruction = draft.i;
  item.step.advances = std::move(draft.advances);
  item.step.addresses = std::move(addresses);
  item.step.label = schedule_.journal().label(draft.tile, -1);
  item.reads = std::move(draft.reads);
  item.writes = std::move(draft.writes);
  item.moves = true;
  schedule_.add(std::move(item));
}

void Program::load_table(uint8_t set, const Buffer& table) {
  if (!schedule_.open()) return;
  Draft draft(NEURON_OP_LOAD_TABLE, NEURON_ENGINE_ACTIVATION);
  draft.i.act.table_set = set;
  draft.i.address.count = 1;
  schedule_.journal().next_operation();
  if (!check_buffer_side(table.all(), false)) return;
  draft.reads = {region_of(table.all())};
  if (!check_instruction(draft.engine, draft.i)) return;
  Schedule::Item item;
  item.engine = draft.engine;
  item.step.instruction = draft.i;
  item.step.addresses = {{NEURON_ADDRESS_ADDR, table.index, 0}};
  item.step.label = schedule_.journal().label(0, table.index);
  item.reads = std::move(draft.reads);
  schedule_.add(std::move(item));
}

void Program::dma_generate(const Side& to, const Side& from, uint8_t operation, float scale,
                           uint8_t priority) {
  schedule_.journal().next_operation();
  const auto target = memory_side(to, true);
  const auto source = memory_side(from, false);
  if (!target || !source) return;
  if (!fit_dimensions(*target) || !fit_dimensions(*source)) {
    fail(runtime::fail(NRT_INVALID,
                       "a generated transfer has a dimension of more than {} elements, or of "
                       "elements more than {} bytes apart; use several",
                       UINT32_MAX, INT32_MAX));
    return;
  }
  Draft draft(NEURON_OP_DMA_GENERATE, NEURON_ENGINE_POOL);
  draft.i.generate.to_dims = dimensions_of(*target);
  draft.i.generate.from_dims = dimensions_of(*source);
  draft.i.generate.scale = std::bit_cast<uint32_t>(scale);
  draft.i.dma.operation = operation;
  draft.i.dma.priority = priority;
  draft.i.dma.to_type = target->dtype;
  draft.i.dma.from_type = source->dtype;
  draft.tile = to.on_chip.tile;
  draft.reads = {region_of_side(from)};
  draft.writes = {region_of_side(to)};
  std::vector<AddressField> addresses = {
      {NEURON_DMA_GENERATE_TO, target->buffer, target->offset},
      {NEURON_DMA_GENERATE_FROM, source->buffer, source->offset}};
  std::array<std::vector<uint64_t>, 2> distances;
  for (uint8_t side = 0; side < 2; ++side) {
    const BufferAccess& access = side == 0 ? *target : *source;
    std::vector<Motion> motions{{.bytes = access.advance}};
    motions.insert(motions.end(), access.motions.begin(), access.motions.end());
    for (const Motion& motion : motions) {
      if (motion.bytes == 0) continue;
      Advance advance{NEURON_BIND_BASE, side, motion.bytes, 0, motion.index, motion.program};
      // A register is added as an unsigned number, so an access that moves backwards starts from
      // its last address and the register counts down.
      const uint32_t most =
          motion.index != 0 ? schedule_.indexes().all()[motion.index].most : schedule_.rounds() - 1;
      const int64_t far = Indexes::distance(motion.bytes, most);
      distances[side].push_back(static_cast<uint64_t>(std::abs(far)));
      if (motion.bytes < 0 && (motion.index != 0 || schedule_.in_loop())) {
        advance.first = -far;
        addresses[side].offset -= static_cast<uint64_t>(advance.first);
      }
      draft.advances.push_back(advance);
    }
  }
  if (const uint64_t far = furthest(distances); far > UINT32_MAX) {
    fail(
        runtime::fail(NRT_INVALID,
                      "a generated transfer moves by up to {} bytes with loops or numbers; engines "
                      "add at most {} to an address",
                      far, UINT32_MAX));
    return;
  }
  generated(std::move(draft), std::move(addresses));
}

namespace {

void fill_indirect(Draft& draft, const Buffer& rows, uint8_t on_chip_type, bool gather,
                   const IndirectOptions& options) {
  const uint64_t row_bytes = rows.columns * isa::dtype_bytes(rows.dtype);
  if (draft.wrong.empty() && (rows.rows > UINT32_MAX || row_bytes > UINT32_MAX)) {
    draft.wrong = base::format(
        "an indirect transfer names a buffer of {} rows of {} bytes; an instruction takes at most "
        "{} of both",
        rows.rows, row_bytes, UINT32_MAX);
  }
  const auto bytes = static_cast<uint32_t>(rows.columns * isa::dtype_bytes(rows.dtype));
  draft.i.indirect.row_bytes =
      options.row_bytes == 0 ? bytes : static_cast<uint32_t>(options.row_bytes);
  draft.i.indirect.row_step = bytes;
  draft.i.indirect.rows = static_cast<uint32_t>(options.rows == 0 ? rows.rows : options.rows);
  draft.i.dma.operation = options.accumulate ? NEURON_DMA_ADD : NEURON_DMA_COPY;
  draft.i.dma.from_type = gather ? rows.dtype : on_chip_type;
  draft.i.dma.to_type = gather ? on_chip_type : rows.dtype;
  draft.i.dma.accumulate = options.accumulate;
  draft.i.dma.skip = options.skip;
  draft.i.dma.priority = options.priority;
}

}  // namespace

void Program::dma_gather(const TileAccess& to, const Buffer& rows, const TileAccess& index,
                         const IndirectOptions& options) {
  schedule_.journal().next_operation();
  if (!schedule_.open() || !check_buffer_side(rows.all(), false)) return;
  Draft draft(NEURON_OP_DMA_GATHER, NEURON_ENGINE_POOL);
  draft.to(to).from(index);
  fill_indirect(draft, rows, to.dtype, true, options);
  draft.reads.push_back(region_of(rows.all()));
  if (options.accumulate || options.skip) draft.also_reads(to);
  generated(std::move(draft), {{NEURON_DMA_INDIRECT_BASE, rows.index, options.first}});
}

void Program::dma_scatter(const Buffer& rows, const TileAccess& index, const TileAccess& from,
                          const IndirectOptions& options) {
  schedule_.journal().next_operation();
  if (!schedule_.open() || !check_buffer_side(rows.all(), true)) return;
  Draft draft(NEURON_OP_DMA_SCATTER, NEURON_ENGINE_POOL);
  draft.to(from).from(index);
  draft.writes.clear();
  draft.also_reads(from);
  fill_indirect(draft, rows, from.dtype, false, options);
  draft.writes.push_back(region_of(rows.all()));
  generated(std::move(draft), {{NEURON_DMA_INDIRECT_BASE, rows.index, options.first}});
}

}  // namespace neuron::builder
