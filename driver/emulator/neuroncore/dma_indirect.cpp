// SPDX-License-Identifier: Apache-2.0
// dma_gather and dma_scatter: a row of device memory for each partition, named by an index tile.
//
// Index p names the row of partition p; an index at or above `rows` is out of bounds. The tile's
// elements of one partition that lie together are one row of the plan.
#include <cstring>

#include "driver/emulator/neuroncore/dma_packets.h"
#include "driver/emulator/neuroncore/operand_view.h"
#include "hw/udma.h"

namespace neuron::core {
namespace {

uint64_t device_address(uint64_t window, const isa::Operand& operand, unsigned partition) {
  const uint64_t at = operand.start + partition;
  return operand.space == NEURON_SPACE_PSUM
             ? window + NEURON_CORE_PSUM + at * NEURON_PSUM_PARTITION_STRIDE
             : window + at * NEURON_SBUF_PARTITION_STRIDE;
}

// Calls run(byte offset in the partition, element of the stream, elements) for what lies together.
template <class Run>
void for_runs(const isa::Operand& operand, unsigned bytes, Run&& run) {
  const uint64_t n = operand.elements();
  uint64_t begin = 0;
  int64_t begin_at = 0;
  int64_t next_at = 0;
  for (uint64_t element = 0; element <= n; ++element) {
    int64_t at = operand.base;
    uint64_t rest = element;
    for (unsigned d = 0; d < operand.ndim; ++d) {
      at += static_cast<int64_t>(rest % operand.size[d]) * operand.step[d] * bytes;
      rest /= operand.size[d];
    }
    if (element == 0) begin_at = at;
    if (element == n || (element != 0 && at != next_at)) {
      run(static_cast<uint64_t>(begin_at), begin, element - begin);
      begin = element;
      begin_at = at;
    }
    next_at = at + bytes;
  }
}

}  // namespace

Fault DmaPlan::indirect(const isa::Instruction& i, CoreMemory& memory, uint64_t window,
                        bool stochastic, const RingLengths& lengths) {
  if (Fault fault = begin(i.dma, lengths)) return fault;
  if (i.dma.operation == NEURON_DMA_TRANSPOSE) {
    return make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, i.dma.operation, NEURON_DMA_CTL);
  }
  const bool gather = i.opcode == NEURON_OP_DMA_GATHER;
  PlanBuilder builder(*this, i.dma, neutral_scale(i.dma.operation));
  builder.stochastic = stochastic;
  const unsigned row_element = gather ? builder.from_bytes() : builder.to_bytes();
  const unsigned tile_element = gather ? builder.to_bytes() : builder.from_bytes();
  const isa::Operand& tile = i.dst;
  if (isa::dtype_bytes(tile.dtype) != tile_element) {
    return make_fault(NEURON_FAULT_OPERAND_DTYPE, 0, tile.dtype, NEURON_INST_DST + 4);
  }
  if (i.indirect.row_bytes != tile.elements() * row_element) {
    return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, i.indirect.row_bytes,
                      NEURON_DMA_INDIRECT_ROW_BYTES);
  }
  const OperandView indexes(memory, i.src0);
  for (unsigned p = 0; p < tile.parts && !builder.fault; ++p) {
    uint32_t index;
    std::memcpy(&index, indexes.row(p), sizeof index);
    const uint64_t row = i.indirect.base + uint64_t{index} * i.indirect.row_step;
    if (index >= i.indirect.rows) {
      if (!i.dma.skip) {
        return make_fault(NEURON_FAULT_DMA_OOB, row, index, NEURON_DMA_INDIRECT_ROWS);
      }
      builder.skip();
      continue;
    }
    const uint64_t number = builder.rows;
    const uint64_t side = device_address(window, tile, p);
    for_runs(tile, tile_element, [&](uint64_t at, uint64_t element, uint64_t n) {
      builder.rows = number;  // all of one partition goes to one engine
      const uint64_t outside = row + element * row_element;
      if (!builder.fault) {
        builder.row(gather ? outside : side + at, gather ? side + at : outside, n);
      }
    });
  }
  return builder.fault;
}

}  // namespace neuron::core
