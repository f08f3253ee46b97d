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
  // exp of 2048 columns of f32.
  kScalarExponential,
  kVectorExponential,
  kQuantize,  // 2048 columns of bf16
  kRandom,    // 2048 columns of f32
  // 128 x 128 by 128 x 512; of block-scaled types 128 x 512 by 512 x 512.
  kProductF32,
  kProductBf16,
  kProductMx,
  kTranspose,  // 128 x 128, bf16
  // 128 rows of 32 KiB of f32, from HBM into SBUF, or added to what is there.
  kGather,
  kGatherAdd,
};
inline constexpr uint32_t kLaterColumns = 2048;
kernels::Neff later_work(LaterWork work, uint32_t rounds, uint8_t generation);
// The multiplications and additions of a round of a product.
double operations_of(LaterWork work);

}  // namespace neuron::published

#endif
