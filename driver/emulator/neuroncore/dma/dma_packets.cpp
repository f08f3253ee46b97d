// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/dma/dma_packets.h"

#include <algorithm>

#include "driver/base/abandonment.h"
#include "hw/udma.h"

namespace neuron::core {
namespace {

constexpr uint32_t kLargest = NEURON_UDMA_MAX_DESC_BYTES;

uint64_t control_word(uint32_t bytes, bool first, bool last) {
  return (bytes & NEURON_DESC_LENGTH_MASK) | (first ? NEURON_DESC_FIRST : 0u) |
         (last ? NEURON_DESC_LAST : 0u);
}

// Of the descriptor that opens a packet.
uint64_t class_word(unsigned priority) {
  return uint64_t{priority} << (32 + NEURON_META_CLASS_SHIFT);
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
  return NEURON_DESC_META | NEURON_DESC_FIRST | class_word(control.priority) |
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

void append_copy(PlanLane& lane, uint64_t from, uint64_t to, uint32_t bytes, unsigned priority) {
  lane.m2s.push_back(
      {source_word(bytes, NEURON_DMA_COPY, true, true) | class_word(priority), from});
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
  base::Abandonment::look();
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
      append_copy(lane, from, to, n * from_bytes(), control.priority);
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

void PlanBuilder::block(std::span<const uint64_t> from_rows, std::span<const uint64_t> to_columns) {
  PlanLane& lane = lane_of(rows++);
  const auto height = static_cast<uint32_t>(from_rows.size());
  const auto width = static_cast<uint32_t>(to_columns.size());
  lane.m2s.push_back(
      {metadata_word(control, false), uint64_t{height} << NEURON_DMA_META_ROWS_SHIFT |
                                          uint64_t{width} << NEURON_DMA_META_COLUMNS_SHIFT});
  for (const uint64_t& from : from_rows) {
    lane.m2s.push_back(
        {source_word(width * from_bytes(), control.operation, false, &from == &from_rows.back()),
         from});
  }
  for (const uint64_t to : to_columns) {
    lane.s2m.push_back({control_word(height * from_bytes(), false, false), to});
  }
  lane.packets.push_back({static_cast<uint8_t>(height + 1), static_cast<uint8_t>(width)});
  bound(lane);
}

uint32_t PlanBuilder::block_side(const RingLengths& lengths) const {
  uint32_t shortest = NEURON_UDMA_MAX_PACKET_DESCS;
  for (unsigned e = 0; e < engine_count; ++e) shortest = std::min(shortest, lengths[engines[e]]);
  return std::max(shortest, 2u) - 1;  // metadata and the rows of a block are in one packet
}

}  // namespace neuron::core
