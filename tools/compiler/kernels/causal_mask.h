// SPDX-License-Identifier: Apache-2.0
//
// What hides scores of a square of 128 queries (rows) and 128 keys (columns): PE adds the product
// of an identity with a mask to them. Callers: kernels. Thread-safe: no state. Cannot fail; Program
// keeps errors.
#ifndef TOOLS_COMPILER_KERNELS_CAUSAL_MASK_H
#define TOOLS_COMPILER_KERNELS_CAUSAL_MASK_H

#include <cstdint>

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

inline constexpr float kHidden = -1e30F;  // exp of it is 0

// The number of the row minus that of the column.
inline builder::IndexPattern below_diagonal() {
  return {.size = {NEURON_PARTITIONS}, .step = {-1}, .offset = 0, .of_partition = 1};
}

struct CausalMask {
  builder::Tile identity, mask;  // The mask is kHidden where the column is above the row
};

// f32 or bf16.
inline CausalMask causal_mask(builder::Program& program, uint8_t dtype) {
  constexpr uint32_t kRows = NEURON_PARTITIONS;
  constexpr builder::Engine kPool = builder::Engine::kPool;
  const builder::Tile one = program.sbuf("ones", kRows, kRows, dtype);
  const CausalMask made{program.sbuf("identity", kRows, kRows, dtype),
                        program.sbuf("mask", kRows, kRows, dtype)};
  program.memset(kPool, one.all(), dtype == NEURON_DTYPE_BF16 ? 0x3F80 : 0x3F800000);
  program.memset(kPool, made.mask.all(), 0);
  program.affine_select(made.identity.all(), one.all(), below_diagonal(), NEURON_ALU_EQ, 0.0F);
  program.affine_select(made.mask.all(), made.mask.all(), below_diagonal(), NEURON_ALU_GE, kHidden);
  return made;
}

// kHidden where the column is not above the row: keys that a window has left behind.
inline builder::Tile past_mask(builder::Program& program, uint8_t dtype) {
  const builder::Tile mask =
      program.sbuf("mask of the past", NEURON_PARTITIONS, NEURON_PARTITIONS, dtype);
  program.memset(builder::Engine::kPool, mask.all(), 0);
  program.affine_select(mask.all(), mask.all(), below_diagonal(), NEURON_ALU_LT, kHidden);
  return mask;
}

}  // namespace neuron::kernels

#endif
