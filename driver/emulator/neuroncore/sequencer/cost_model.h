// SPDX-License-Identifier: Apache-2.0
// What work other than instructions costs in model time (integer picoseconds). The cost of
// instructions is in driver/isa/cost.h.
//
// Every constant has its source beside it: a published fact, a fit to published measurements, or
// our own choice where nothing is published; README.md has the table. Any thread, cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_COST_MODEL_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_COST_MODEL_H

#include <cstdint>
#include <type_traits>

#include "driver/emulator/chip/bus.h"
#include "driver/isa/cost.h"

namespace neuron::core {

using chip::ModelTime;
using isa::Cost;
using isa::cost_of;
static_assert(std::is_same_v<ModelTime, isa::ModelTime>);

// The time for one semaphore update to reach a sequencer that waits for it. Not published: chosen
// equal to the completion write of a DMA (timing fit), which takes the same way.
inline constexpr ModelTime kSemaphoreLatency = 50'000;
// Doorbell to first byte of a DMA transfer (DMA bandwidth guide).
inline constexpr ModelTime kDmaStart = 1'300'000;
// Per descriptor pair on its DMA engine (fit, +-25 ns), and bytes at 27.2 GB/s (DMA guide).
inline constexpr ModelTime kDmaDescriptor = 50'000;
constexpr ModelTime dma_time(uint64_t descriptor_pairs, uint64_t bytes) {
  return descriptor_pairs * kDmaDescriptor + bytes * 10000 / 272;
}

}  // namespace neuron::core

#endif
