// SPDX-License-Identifier: Apache-2.0
// dma_gather and dma_scatter: a row of device memory for each partition, named by an index tile.
//
// Index p names the row of partition p; an index at or above `rows` is out of bounds. Contiguous
// elements of one partition of the tile form one row of the plan. A transposing gather makes the
// row of index p column p: element p of every partition.
#include <algorithm>
#include <cstring>
#include <vector>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/dma/dma_packets.h"
#include "driver/emulator/neuroncore/engines/operand_view.h"
#include "hw/udma.h"

namespace neuron::core {
namespace {

uint64_t device_address(uint64_t window, const isa::Operand& operand, unsigned partition) {
  const uint64_t at = operand.start + partition;
  return operand.space == NEURON_SPACE_PSUM
             ? window + NEURON_CORE_PSUM + at * NEURON_PSUM_PARTITION_STRIDE
             : window + at * NEURON_SBUF_PARTITION_STRIDE;
}

// Byte offset of an element of the stream in its partition.
int64_t offset_of(const isa::Operand& operand, unsigned bytes, uint64_t element) {
  int64_t at = operand.base;
  for (unsigned d = 0; d < operand.ndim; ++d) {
    at += static_cast<int64_t>(element % operand.size[d]) * operand.step[d] * bytes;
    element /= operand.size[d];
  }
  return at;
}

// Calls run(byte offset in the partition, element of the stream, elements) for each contiguous run.
template <class Run>
void for_runs(const isa::Operand& operand, unsigned bytes, Run&& run) {
  const uint64_t n = operand.elements();
  uint32_t steps = 0;
  uint64_t begin = 0;
  int64_t begin_at = 0;
  int64_t next_at = 0;
  for (uint64_t element = 0; element <= n; ++element) {
    base::Abandonment::look_now_and_then(steps);
    const int64_t at = offset_of(operand, bytes, element);
    if (element == 0) begin_at = at;
    if (element == n || (element != 0 && at != next_at)) {
      run(static_cast<uint64_t>(begin_at), begin, element - begin);
      begin = element;
      begin_at = at;
    }
    next_at = at + bytes;
  }
}

struct GatheredRow {
  unsigned column;
  uint64_t address;
};

// Cuts the transfer into blocks of rows whose columns are neighbours in the tile.
void transpose_rows(PlanBuilder& builder, const std::vector<GatheredRow>& rows,
                    const isa::Operand& tile, uint64_t window, uint32_t side) {
  const unsigned bytes = builder.from_bytes();
  std::vector<uint64_t> from, to;
  for (size_t begin = 0, end = 0; begin < rows.size() && !builder.fault; begin = end) {
    const int64_t at = offset_of(tile, bytes, rows[begin].column);
    for (end = begin + 1; end < rows.size() && end - begin < side; ++end) {
      const auto next = static_cast<int64_t>((end - begin) * bytes);
      if (offset_of(tile, bytes, rows[end].column) != at + next) break;
    }
    for (uint32_t column = 0; column < tile.parts && !builder.fault; column += side) {
      const uint32_t last = std::min<uint32_t>(column + side, tile.parts);
      from.clear();
      to.clear();
      for (size_t r = begin; r < end; ++r) {
        from.push_back(rows[r].address + uint64_t{column} * bytes);
      }
      for (uint32_t c = column; c < last; ++c) {
        to.push_back(device_address(window, tile, c) + static_cast<uint64_t>(at));
      }
      builder.block(from, to);
    }
  }
}

}  // namespace

Fault DmaPlan::indirect(const isa::Instruction& i, CoreMemory& memory, uint64_t window,
                        bool stochastic, const RingLengths& lengths) {
  if (Fault fault = begin(i.dma, lengths)) return fault;
  const bool gather = i.opcode == NEURON_OP_DMA_GATHER;
  const bool transposes = i.dma.operation == NEURON_DMA_TRANSPOSE;
  if (transposes && !gather) {
    return make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, i.dma.operation, NEURON_DMA_CTL);
  }
  PlanBuilder builder(*this, i.dma, neutral_scale(i.dma.operation));
  builder.stochastic = stochastic;
  const unsigned row_element = gather ? builder.from_bytes() : builder.to_bytes();
  const unsigned tile_element = gather ? builder.to_bytes() : builder.from_bytes();
  const isa::Operand& tile = i.dst;
  if (isa::dtype_bytes(tile.dtype) != tile_element) {
    return make_fault(NEURON_FAULT_OPERAND_DTYPE, 0, tile.dtype, NEURON_INST_DST + 4);
  }
  const uint64_t columns = transposes ? tile.parts : tile.elements();
  if (i.indirect.row_bytes != columns * row_element) {
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, i.indirect.row_bytes,
                      NEURON_DMA_INDIRECT_ROW_BYTES);
  }
  const OperandView indexes(memory, i.src0);
  if (transposes ? tile.elements() != i.src0.parts : tile.parts != i.src0.parts) {
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, i.src0.parts, NEURON_INST_SRC0 + 3);
  }
  std::vector<GatheredRow> gathered;  // of a transpose
  for (unsigned p = 0; p < i.src0.parts && !builder.fault; ++p) {
    uint32_t index;
    std::memcpy(&index, indexes.row(p), sizeof index);
    const uint64_t row = i.indirect.base + uint64_t{index} * i.indirect.row_step;
    if (index >= i.indirect.rows) {
      if (!i.dma.skip) {
        Fault fault = make_fault(NEURON_FAULT_DMA_OOB, row, index, NEURON_DMA_INDIRECT_ROWS);
        fault.detail = i.indirect.rows;
        return fault;
      }
      if (!transposes) builder.skip();
      continue;
    }
    if (transposes) {
      gathered.push_back({p, row});
      continue;
    }
    const uint64_t number = builder.rows;
    const uint64_t side = device_address(window, tile, p);
    for_runs(tile, tile_element, [&](uint64_t at, uint64_t element, uint64_t n) {
      builder.rows = number;  // all rows of one partition go to one engine
      const uint64_t outside = row + element * row_element;
      if (!builder.fault) {
        builder.row(gather ? outside : side + at, gather ? side + at : outside, n);
      }
    });
  }
  if (!builder.fault) transpose_rows(builder, gathered, tile, window, builder.block_side(lengths));
  return builder.fault;
}

}  // namespace neuron::core
