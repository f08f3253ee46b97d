// SPDX-License-Identifier: Apache-2.0
// The ratios of structured sparsity (hw/isa.h): the one place that knows their numbers.
//
// Callers: checks, costs, the emulated Tensor engine, compilers. Pure functions; cannot fail.
#ifndef DRIVER_ISA_SPARSITY_H
#define DRIVER_ISA_SPARSITY_H

#include "hw/isa.h"

namespace neuron::isa {

// `rows` compressed rows stand for rows x slots dense ones: those of as many partitions of the
// moving matrix, each of which has `slots` rows.
struct Sparsity {
  unsigned rows, slots;
  constexpr unsigned dense() const { return rows * slots; }
};
inline constexpr unsigned kSparsities = NEURON_SPARSE_1_OF_2 + 1;

constexpr Sparsity sparsity_of(unsigned mode) {
  constexpr Sparsity kAll[kSparsities] = {{4, 4}, {4, 3}, {4, 2}, {2, 4}, {2, 2}, {1, 4}, {1, 2}};
  return kAll[mode < kSparsities ? mode : 0];
}

}  // namespace neuron::isa

#endif
