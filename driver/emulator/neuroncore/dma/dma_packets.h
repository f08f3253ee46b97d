// SPDX-License-Identifier: Apache-2.0
// Packets of a plan: a row becomes a plain copy or a compute packet, a block becomes a transpose.
//
// Callers: dma_generate.cpp, dma_indirect.cpp, dma_plan.cpp. The layouts are those of hw/udma.h,
// written here without the chip's reading code. Fails only through PlanBuilder::fault.
#ifndef DRIVER_EMULATOR_NEURONCORE_DMA_DMA_PACKETS_H
#define DRIVER_EMULATOR_NEURONCORE_DMA_DMA_PACKETS_H

#include <span>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/dma/dma_plan.h"

namespace neuron::core {

// One descriptor on each side, at most 64 KiB.
void append_copy(PlanLane& lane, uint64_t from, uint64_t to, uint32_t bytes, unsigned priority);

// Counts rows and finds the lane of each.
struct PlanBuilder {
  DmaPlan& plan;
  isa::DmaControl control;
  uint32_t scale;           // bits, of fma, min and max
  bool stochastic = false;  // rounding of the results
  std::array<uint8_t, chip::kEnginesPerCore> engines{};
  unsigned engine_count = 0;
  uint64_t rows = 0;
  Fault fault;

  PlanBuilder(DmaPlan& of, const isa::DmaControl& dma, uint32_t scale_bits);
  unsigned from_bytes() const { return isa::dtype_bytes(control.from_type); }
  unsigned to_bytes() const { return isa::dtype_bytes(control.to_type); }
  bool computes() const { return control.operation != NEURON_DMA_COPY; }

  PlanLane& lane_of(uint64_t row) { return plan.lane(engines[row % engine_count]); }
  // Adds the next row, of `elements` elements that are contiguous on both sides.
  void row(uint64_t from, uint64_t to, uint64_t elements);
  void skip() {
    base::Abandonment::look();
    ++rows;
  }
  // Adds the next block of a transpose, given by the addresses of its rows and columns, at most 64
  // of each.
  void block(std::span<const uint64_t> from_rows, std::span<const uint64_t> to_columns);
  // The largest number of rows or columns of a block that rings of these lengths can take.
  uint32_t block_side(const RingLengths& lengths) const;

 private:
  void append_compute(PlanLane& lane, uint64_t from, uint64_t to, uint32_t elements);
  void bound(const PlanLane& lane);
};

// The neutral scale of fma or constant of min and max.
uint32_t neutral_scale(unsigned operation);

}  // namespace neuron::core

#endif
