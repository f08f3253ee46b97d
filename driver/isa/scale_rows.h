// SPDX-License-Identifier: Apache-2.0
// Where the block scales of a matrix lie (hw/isa.h): the one place that knows the rows.
//
// Callers: the emulated engines, strict mode, compilers. Pure functions; cannot fail.
#ifndef DRIVER_ISA_SCALE_ROWS_H
#define DRIVER_ISA_SCALE_ROWS_H

#include "hw/isa.h"

namespace neuron::isa {

inline constexpr unsigned kQuadrant = 32;
inline constexpr unsigned kScalesOfQuadrant = kQuadrant / NEURON_MX_PARTITIONS;
// Matrices that share one tile of scales; a quarter above them has no rows.
inline constexpr unsigned kQuarters = 4;

// The partition, counted from the operand's first, with the scales of data partition `part`.
constexpr unsigned scale_row(unsigned part, unsigned quarter) {
  return part / kQuadrant * kQuadrant + part % kQuadrant / NEURON_MX_PARTITIONS +
         kScalesOfQuadrant * quarter;
}

}  // namespace neuron::isa

#endif
