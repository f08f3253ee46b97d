// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/dma_packets.h"

#include <algorithm>

#include "hw/udma.h"

namespace neuron::core {
namespace {

constexpr uint32_t kLargest = NEURON_UDMA_MAX_DESC_BYTES;

uint64_t control_word(uint32_t bytes, bool first, bool last) {
  return (bytes & NEURON_DESC_LENGTH_MASK) | (first ? NEURON_DESC_FIRST : 0u) |
         (last ? NEURON_DESC_LAST : 0u);
}

uint64_t source_word(uint32_t bytes, unsigned operation, bool first, bool last) {
  uint32_t meta = NEURON_META_DEFAULT;
  if (operation != NEURON_DMA_COPY) {
    meta = (meta & ~(7u << NEURON_META_OP_SHIFT)) | NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT |
           operation << NEURON_META_TYPE_SHIFT;
  }
  return control_word(bytes, first, last) | uint64_t{meta} << 32;
}

uint64_t metadata_word(const isa::DmaControl& control, bool stochastic) {
  return NEURON_DESC_META | NEURON_DESC_FIRST |
         uint64_t{control.operation} << NEURON_DMA_META_OPERATION_SHIFT |
         uint64_t{control.from_type} << NEURON_DMA_META_FROM_SHIFT |
         uint64_t{control.to_type} << NEURON_DMA_META_TO_SHIFT |
         (control.accumulate ? NEURON_DMA_META_ACC : 0) |
         (stochastic ? NEURON_DMA_META_STOCHASTIC : 0);
}

}  // namespace

uint32_t neutral_scale(unsigned operation) {
  switch (operation) {
    case NEURON_DMA_FMA:
      return 0x3F800000;  // 1
    case NEURON_DMA_MIN:
      return 0x7F800000;  // +inf
    case NEURON_DMA_MAX:
      return 0xFF800000;  // -inf
    default:
      return 0;
  }
}

void append_copy(PlanLane& lane, uint64_t from, uint64_t to, uint32_t bytes) {
  lane.m2s.push_back({source_word(bytes, NEURON_DMA_COPY, true, true), from});
  lane.s2m.push_back({control_word(bytes, false, false), to});
  lane.packets.push_back({1, 1});
}

PlanBuilder::PlanBuilder(DmaPlan& of, const isa::DmaControl& dma, uint32_t scale_bits)
    : plan(of), control(dma), scale(scale_bits) {
  for (unsigned engine = 0; engine < engines.size(); ++engine) {
    if ((dma.mask >> engine & 1) != 0) engines[engine_count++] = static_cast<uint8_t>(engine);
  }
}

void PlanBuilder::bound(const PlanLane& lane) {
  if (std::max(lane.m2s.size(), lane.s2m.size()) > DmaPlan::kMaxDescriptors) {
    fault = make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, DmaPlan::kMaxDescriptors + 1, NEURON_DMA_CTL);
  }
}

void PlanBuilder::row(uint64_t from, uint64_t to, uint64_t elements) {
  PlanLane& lane = lane_of(rows++);
  const uint32_t largest = kLargest / std::max(from_bytes(), to_bytes());
  while (elements != 0 && !fault) {
    const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(elements, largest));
    if (computes()) {
      append_compute(lane, from, to, n);
    } else {
      append_copy(lane, from, to, n * from_bytes());
    }
    from += uint64_t{n} * from_bytes();
    to += uint64_t{n} * to_bytes();
    elements -= n;
    bound(lane);
  }
}

void PlanBuilder::append_compute(PlanLane& lane, uint64_t from, uint64_t to, uint32_t elements) {
  lane.m2s.push_back({metadata_word(control, stochastic), scale});
  lane.m2s.push_back({source_word(elements * from_bytes(), control.operation, false, true), from});
  lane.s2m.push_back({control_word(elements * to_bytes(), false, false), to});
  lane.packets.push_back({2, 1});
}

void PlanBuilder::block(uint64_t from, int64_t from_step, uint64_t to, int64_t to_step,
                        uint32_t block_rows, uint32_t columns) {
  PlanLane& lane = lane_of(rows++);
  const uint32_t bytes = from_bytes();
  lane.m2s.push_back(
      {metadata_word(control, false), uint64_t{block_rows} << NEURON_DMA_META_ROWS_SHIFT |
                                          uint64_t{columns} << NEURON_DMA_META_COLUMNS_SHIFT});
  for (uint32_t r = 0; r < block_rows; ++r) {
    lane.m2s.push_back({source_word(columns * bytes, control.operation, false, r + 1 == block_rows),
                        from + static_cast<uint64_t>(from_step * r)});
  }
  for (uint32_t c = 0; c < columns; ++c) {
    lane.s2m.push_back(
        {control_word(block_rows * bytes, false, false), to + static_cast<uint64_t>(to_step * c)});
  }
  lane.packets.push_back({static_cast<uint8_t>(block_rows + 1), static_cast<uint8_t>(columns)});
  bound(lane);
}

}  // namespace neuron::core
