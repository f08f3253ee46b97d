// SPDX-License-Identifier: Apache-2.0
// Reductions of compute packets (hw/udma.h, "Reduce"): many sources into one result, in the
// arithmetic of their own type.
//
// Each source is read once and the result written once; intermediate values stay in registers.
// Callers: udma_compute.cpp. Any thread; MXCSR comes back as it was. Pointers need no alignment.
// The result may be one of the sources, or share no byte with any. The bits are the same on every
// SIMD path. Cannot fail: ComputeSpec has checked types.
#ifndef DRIVER_EMULATOR_CHIP_UDMA_REDUCE_H
#define DRIVER_EMULATOR_CHIP_UDMA_REDUCE_H

#include <cstddef>
#include <cstdint>

#include "hw/isa.h"

namespace neuron::chip {

struct Reduction {
  unsigned dtype = NEURON_DTYPE_F32;
  unsigned reduction = NEURON_DMA_REDUCE_SUM;
  uint32_t divisor = 0;  // of a sum; 0: none
};

bool can_reduce(unsigned dtype);

// to[i] = (from[0][i] op from[1][i] op ...) / divisor; 1 to 64 sources.
void reduce(const Reduction& how, const std::byte* const* from, uint32_t sources, std::byte* to,
            size_t elements);

}  // namespace neuron::chip

#endif
