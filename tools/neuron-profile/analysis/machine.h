// SPDX-License-Identifier: Apache-2.0
//
// What a core of a generation can do at most, for shares of peaks and the roofline. The emulated
// core computes with the same clocks and DMA rates (driver/isa/generation.h). HBM: the published
// bandwidth of a chip, shared by its cores. Pure functions. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_MACHINE_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_MACHINE_H

#include <cstdint>

#include "driver/isa/generation.h"

namespace neuron::profile {

struct Machine {
  double clock_hz = 0;                // of the Tensor engine
  double peak_flops = 0;              // 128 x 128 multiplications and additions a cycle
  double hbm_bytes_per_second = 0;    // a core's share
  double dma_bytes_per_second = 0;    // 16 engines together
  uint64_t efficient_descriptor = 0;  // bytes below which a descriptor costs as much as these
};

inline Machine machine_of(unsigned generation) {
  const isa::Timing& timing = isa::generation_row(generation).timing;
  constexpr double kRows = 128, kColumns = 128, kDmaEngines = 16;
  // Chip and cores: 820 GB/s and 2, 2.9 TB/s and 8, 4.9 TB/s and 8.
  const double hbm = generation == 2 ? 820e9 / 2 : generation == 3 ? 2.9e12 / 8 : 4.9e12 / 8;
  Machine machine;
  machine.clock_hz =
      1e12 * static_cast<double>(timing.pe.cycles) / static_cast<double>(timing.pe.picoseconds);
  machine.peak_flops = 2 * kRows * kColumns * machine.clock_hz;
  machine.hbm_bytes_per_second = hbm;
  machine.dma_bytes_per_second = kDmaEngines * 1e12 * static_cast<double>(timing.dma_bytes.cycles) /
                                 static_cast<double>(timing.dma_bytes.picoseconds);
  machine.efficient_descriptor = 2048;
  return machine;
}

}  // namespace neuron::profile

#endif
