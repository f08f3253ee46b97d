// SPDX-License-Identifier: Apache-2.0
// The same work again and again, for what was published about generations 3 and 4 as ratios.
//
// Callers: the program model-times. Thread-safe: no state. Fails with the builder's sentence.
#ifndef TESTS_SYSTEM_PUBLISHED_LATER_PROGRAMS_H
#define TESTS_SYSTEM_PUBLISHED_LATER_PROGRAMS_H

#include <cstdint>

#include "tools/compiler/kernels/kernels.h"

namespace neuron::published {

// No round depends on the one before it.
enum class LaterWork : uint8_t {
  // 2048 columns of SBUF copied by an engine, by the type of both sides.
  kVectorF32,
  kVectorBf16,
  kVectorF8,
  kScalarF32,
  kScalarBf16,
  kPoolF32,
  kVectorBf16Strided,   // each second element
  kVectorBf16FromPsum,  // 1024 columns
  kVectorF32Far,        // each eighth element, 32 bytes behind the one before
  // The maximum of two tiles of 2048 columns.
  kMaximumF32,
  kMaximumBf16,
  // exp of 2048 columns of f32.
  kScalarExponential,
  kVectorExponential,
  kQuantize,  // 2048 columns of bf16
  kRandom,    // 2048 columns of f32
  // 128 x 128 by 128 x 512; of block-scaled types and 4:16 sparsity 128 x 512 by 512 x 512, of two
  // rows at once 128 x 256 by 256 x 512.
  kProductF32,
  kProductBf16,
  kProductF8,
  kProductOneZero,  // f32, with the hint that the moving matrix is 0 and 1
  kProductMx,
  kProductSparse,
  kProductDoubleRow,
  kTranspose,     // 128 x 128, bf16
  kTransposeF32,  // 128 x 128
  kLoadWeights,   // 128 x 128, bf16
  // 128 rows of 32 KiB of f32, from HBM into SBUF, or added to what is there.
  kGather,
  kGatherAdd,
  // 2048 x 128 of bf16 by DMA into 128 partitions: copied by rows of 4 KiB, transposed, and
  // transposed from SBUF.
  kDmaCopy,
  kDmaTranspose,
  kDmaTransposeOnChip,
  kDmaThereAndBack,  // four bytes into SBUF, and when they are there, back
  kDmaGenerated,     // four bytes, by a descriptor that Pool writes
};
inline constexpr uint32_t kLaterColumns = 2048;
kernels::Neff later_work(LaterWork work, uint32_t rounds, uint8_t generation);
// The multiplications and additions of a round of a product.
double operations_of(LaterWork work);

// The bytes that each core of a pair sends in a round of `exchange`, a program for two physical
// cores in which GpSimd sends a tile to the other one, and receives its tile.
inline constexpr uint32_t kExchangedBytes = 128 * 1024;
kernels::Neff exchange(uint32_t rounds, uint8_t generation);

// 512 x 16384 by 16384 x 1024, bf16. The moving matrix is there in f8e4, with a scale for each
// column. The stationary one is quantised by rows, transposed, and multiplied two rows at a time.
kernels::Neff double_row_matmul();

}  // namespace neuron::published

#endif
