// SPDX-License-Identifier: Apache-2.0
// What a custom operator takes in model time, by the accesses that it has counted.
//
// Nothing is published of GpSimd's times beyond a TCM of three cycles and 512 bits, and of the
// order of its accessors: TCM is the fastest, streams come next, element accessors are slowest. All
// numbers below are our choice in that order; arithmetic between accesses costs nothing. The counts
// come from a process that nobody trusts, so each is cut off, and so is their sum. Pure functions,
// any thread, cannot fail.
#ifndef DRIVER_ISA_OPERATOR_COST_H
#define DRIVER_ISA_OPERATOR_COST_H

#include <algorithm>
#include <cstdint>

#include "driver/isa/dma_cost.h"
#include "driver/isa/generation.h"
#include "hw/custom_operator.h"

namespace neuron::isa {

// An element of an accessor is a word of device memory that the core waits for: as long as the
// other units wait for SBUF (60 cycles, guide), and the way through the bus.
inline constexpr uint64_t kOperatorElementCycles = 100;
// An element of a stream is one of TCM (3 cycles, guide) and one step of the stream.
inline constexpr uint64_t kOperatorStreamCycles = 4;
// TCM moves 64 bytes at a time (512 bits, guide), in 3 cycles.
inline constexpr uint64_t kOperatorTcmCycles = 3, kOperatorTcmBytes = 64;

// No count and no time is more than this; about a second.
inline constexpr uint64_t kMostOperatorCount = uint64_t{1} << 40;
inline constexpr ModelTime kMostOperatorTime = 1'000'000'000'000;

// What one GpSimd core takes, without the start of the instruction.
constexpr ModelTime operator_time(const neuron_operator_counts& counts, unsigned generation) {
  const Timing& timing = timing_of(generation);
  const auto bounded = [](uint64_t count) { return std::min(count, kMostOperatorCount); };
  const uint64_t bytes = bounded(counts.transfer_bytes);
  const uint64_t cycles = bounded(counts.elements) * kOperatorElementCycles +
                          bounded(counts.stream_elements) * kOperatorStreamCycles +
                          (bytes + kOperatorTcmBytes - 1) / kOperatorTcmBytes * kOperatorTcmCycles;
  // Each transfer is one of a DMA engine that was idle.
  const uint64_t transfers = bounded(counts.transfers);
  if (cycles > kMostOperatorTime || transfers > kMostOperatorTime / kDmaStart) {
    return kMostOperatorTime;
  }
  return std::min(kMostOperatorTime, timing.others.time(cycles) + transfers * kDmaStart +
                                         transfer_time(bytes, timing));
}

}  // namespace neuron::isa

#endif
