// SPDX-License-Identifier: Apache-2.0
//
// Types and sizes of the core by the short names that the kernels use.
//
// Callers: kernels. Values only.
#ifndef TOOLS_COMPILER_KERNELS_SHORT_NAMES_H
#define TOOLS_COMPILER_KERNELS_SHORT_NAMES_H

#include <cstdint>

#include "hw/isa.h"

namespace neuron::kernels {

inline constexpr uint8_t kF32 = NEURON_DTYPE_F32;
inline constexpr uint32_t kParts = NEURON_PARTITIONS;
inline constexpr uint32_t kBank = NEURON_PSUM_BANK_BYTES / 4;  // Columns of fp32
// A tile of a product: rows of K, columns of the stationary matrix, columns of the moving one.
inline constexpr uint64_t kDeep = NEURON_PARTITIONS;
inline constexpr uint64_t kHigh = NEURON_PE_MAX_M;
inline constexpr uint64_t kWide = NEURON_PE_MAX_N;

}  // namespace neuron::kernels

#endif
