// SPDX-License-Identifier: Apache-2.0
// Collective operations of Program: as with a transfer, a trigger starts one and a semaphore
// signals its end.
#include <algorithm>

#include "runtime/neff/collective_place.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

// CCOM_TYPE_COUNT: none.
ccom_type_t collective_type(uint8_t dtype) {
  switch (dtype) {
    case NEURON_DTYPE_U8:
      return CCOM_UINT8;
    case NEURON_DTYPE_I8:
      return CCOM_INT8;
    case NEURON_DTYPE_F8E3:
      return CCOM_FP8_E3;
    case NEURON_DTYPE_F8E4:
      return CCOM_FP8_E4;
    case NEURON_DTYPE_F8E5:
      return CCOM_FP8_E5;
    case NEURON_DTYPE_U16:
      return CCOM_UINT16;
    case NEURON_DTYPE_I16:
      return CCOM_INT16;
    case NEURON_DTYPE_F16:
      return CCOM_FP16;
    case NEURON_DTYPE_BF16:
      return CCOM_BF16;
    case NEURON_DTYPE_U32:
      return CCOM_UINT32;
    case NEURON_DTYPE_I32:
      return CCOM_INT32;
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
      return CCOM_FP32;
    case NEURON_DTYPE_U64:
      return CCOM_UINT64;
    case NEURON_DTYPE_I64:
      return CCOM_INT64;
    default:
      return CCOM_TYPE_COUNT;
  }
}

// Elements of one rank's share, which is the meaning of `count`.
uint64_t share(ccom_operation_t operation, const SharedSide& input, const SharedSide& output,
               uint64_t ranks) {
  switch (operation) {
    case CCOM_REDUCE_SCATTER:
    case CCOM_SCATTER:
      return output.elements;
    case CCOM_ALL_TO_ALL:
      return input.elements / ranks;
    default:
      return input.elements;
  }
}

neff::RowsOfSbuf rows_of(const SharedSide& side, uint32_t row_columns) {
  if (side.partitions == 0) return {};
  return {static_cast<uint32_t>(row_columns * isa::dtype_bytes(side.dtype)), side.partitions,
          side.offset};
}

}  // namespace

void Program::collective(Engine owner, ccom_operation_t operation, const Buffer& output,
                         const Buffer& input, const CollectiveOptions& options) {
  if (!schedule_.open()) return;
  if (operation != CCOM_BARRIER) {
    return collective(owner, operation, output.all(), input.all(), options);
  }
  collective(owner, operation, Side(BufferAccess()), Side(BufferAccess()), options);
}

std::optional<SharedSide> Program::shared_side(const Side& side, bool write) {
  const auto access = memory_side(side, write);
  if (!access) return std::nullopt;
  SharedSide shared{.buffer = access->buffer,
                    .offset = access->offset,
                    .bytes = access->bytes(),
                    .dtype = access->dtype};
  const uint64_t element = isa::dtype_bytes(access->dtype);
  shared.elements = shared.bytes / element;
  if (access->buffer == Transfer::kOnChip) {
    shared.partitions = side.on_chip.parts;
    shared.columns = static_cast<uint32_t>(access->size[0] / element);
    if (access->bytes() == access->size[0] * shared.partitions) return shared;
    fail(runtime::fail(
        NRT_INVALID, "a collective names {} runs of \"{}\" in a partition; expected is one",
        access->bytes() / access->size[0] / shared.partitions, tiles_[side.on_chip.tile - 1].name));
    return std::nullopt;
  }
  const BufferInfo& info = buffers_[static_cast<size_t>(access->buffer)];
  if (info.kind != BufferKind::kTemporary) {
    fail(runtime::fail(NRT_INVALID,
                       "a collective names \"{}\", which is no temporary; other ranks must know "
                       "its address: copy it",
                       info.name));
    return std::nullopt;
  }
  if (region_of(*access).end - region_of(*access).first == shared.bytes) return shared;
  fail(runtime::fail(NRT_INVALID, "a collective names a part of \"{}\" that is not contiguous",
                     info.name));
  return std::nullopt;
}

// Type, count and buffers of the operation, checked.
bool Program::place_collective(CollectiveStep& entry, const SharedSide& output,
                               const SharedSide& input, const CollectiveOptions& options,
                               uint64_t ranks) {
  neff::Collective& c = entry.operation;
  c.type = collective_type(input.dtype);
  if (c.type == CCOM_TYPE_COUNT || input.dtype != output.dtype) {
    fail(runtime::fail(NRT_INVALID, "a collective from {} to {}", isa::dtype_name(input.dtype),
                       isa::dtype_name(output.dtype)));
    return false;
  }
  const bool variable = c.operation > CCOM_BARRIER;
  if (variable &&
      (c.counts.empty() || c.displacements.size() != c.counts.size() ||
       (c.operation == CCOM_ALL_TO_ALL_V &&
        (c.receive_displacements.size() != c.counts.size() || c.counts.size() != ranks * ranks)))) {
    fail(runtime::fail(NRT_INVALID, "{} needs counts and displacements of all {} ranks",
                       neff::collective_name(c.operation), ranks));
    return false;
  }
  const uint64_t members = std::max<uint64_t>(1, ranks);
  c.count = options.count != 0 ? options.count
            : variable         ? 0
                               : share(c.operation, input, output, members);
  const neff::CollectiveBytes bytes = neff::collective_bytes(c, members);
  if (bytes.input > input.bytes || bytes.output > output.bytes) {
    fail(runtime::fail(NRT_INVALID, "{} reads {} bytes and writes {}; the buffers have {} and {}",
                       neff::collective_name(c.operation), bytes.input, bytes.output, input.bytes,
                       output.bytes));
    return false;
  }
  uint32_t row = options.row_columns;
  for (const SharedSide* side : {&input, &output}) {
    if (side->partitions == 0 || options.row_columns != 0) continue;
    row = row == 0 ? side->columns : std::min(row, side->columns);
  }
  for (const SharedSide* side : {&input, &output}) {
    if (side->partitions == 0 || (row != 0 && side->columns % row == 0)) continue;
    fail(runtime::fail(NRT_INVALID,
                       "{} has rows of {} columns, and a tile of {}; expected is a "
                       "whole number of rows beside each other",
                       neff::collective_name(c.operation), row, side->columns));
    return false;
  }
  entry.input = input.buffer;
  entry.output = output.buffer;
  c.input_offset = input.offset;
  c.output_offset = output.offset;
  c.input_rows = rows_of(input, row);
  c.output_rows = rows_of(output, row);
  const auto place = [](const SharedSide& side, const neff::RowsOfSbuf& rows, uint64_t used) {
    return neff::CollectivePlace{Transfer::kOnChipName, NEURON_CORE_SBUF_SIZE, side.offset, rows,
                                 used};
  };
  if (const auto problem = neff::check_apart(place(input, c.input_rows, bytes.input),
                                             place(output, c.output_rows, bytes.output))) {
    fail(runtime::fail(NRT_INVALID, "{}: {}", neff::collective_name(c.operation), *problem));
    return false;
  }
  return true;
}

void Program::collective(Engine owner, ccom_operation_t operation, const Side& output,
                         const Side& input, const CollectiveOptions& options) {
  if (!schedule_.open()) return;
  schedule_.journal().next_operation();
  const auto engine = static_cast<unsigned>(owner);
  if (schedule_.in_loop()) {
    fail(runtime::fail(NRT_INVALID,
                       "a collective in a loop, branch or function; list it outside, once for each "
                       "round"));
    return;
  }
  CollectiveStep entry;
  entry.engine = engine;
  neff::Collective& c = entry.operation;
  c.operation = operation;
  c.reduction = options.reduction;
  c.algorithm = options.algorithm;
  c.root = options.root;
  c.groups = options.groups;
  c.pairs = options.pairs;
  c.stream = options.stream;
  c.counts = options.counts;
  c.displacements = options.displacements;
  c.receive_displacements = options.receive_displacements;
  c.semaphore_add = 16;  // as a transfer on 16 DMA engines
  const uint64_t ranks = c.groups.empty() ? options.group_size : c.groups[0].size();
  for (const CollectiveStep& other : schedule_.parts().collectives) {
    if (other.operation.stream != c.stream || other.engine == engine) continue;
    fail(runtime::fail(NRT_INVALID,
                       "collectives of stream {} are started by {} and by {}, which may overtake "
                       "each other; give each its own stream",
                       c.stream, isa::engine_name(other.engine), isa::engine_name(engine)));
    return;
  }
  Schedule::Item item;
  item.engine = engine;
  item.moves = true;
  if (operation != CCOM_BARRIER) {
    const bool needs = operation == CCOM_ALL_GATHER || operation == CCOM_REDUCE_SCATTER ||
                       operation == CCOM_GATHER || operation == CCOM_SCATTER ||
                       operation == CCOM_ALL_TO_ALL;
    if (needs && ranks == 0) {
      fail(runtime::fail(NRT_INVALID,
                         "{} needs replica groups, or the number of ranks (group_size)",
                         neff::collective_name(operation)));
      return;
    }
    const auto from = shared_side(input, false);
    const auto to = from ? shared_side(output, true) : std::nullopt;
    if (!to || !place_collective(entry, *to, *from, options, ranks)) return;
    item.reads = {input.on_chip.present() ? region_of(input.on_chip) : region_of(input.in_memory)};
    item.writes = {output.on_chip.present() ? region_of(output.on_chip)
                                            : region_of(output.in_memory)};
  }
  item.step.instruction.opcode = NEURON_OP_CC_TRIGGER;
  item.step.instruction.engines = static_cast<uint8_t>(1u << engine);
  item.step.instruction.address = {0, 0, 1};
  item.step.instruction.scalar0 = {1, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
  item.step.label = output.on_chip.present() ? schedule_.journal().label(output.on_chip.tile, -1)
                                             : schedule_.journal().label(0, entry.output);
  item.step.collective = schedule_.add_collective(std::move(entry));
  schedule_.add(std::move(item));
}

}  // namespace neuron::builder
