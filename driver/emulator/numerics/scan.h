// SPDX-License-Identifier: Apache-2.0
// Recurrences along the free dimension, strictly sequential, many partitions side by side.
//
// Data lies in columns: element i of row r at data[i * stride + r], so that one step of all rows is
// one vector operation. The state is fp32 and is not rounded to the destination's type between
// steps. A NaN in the state or the output is 0x7FC00000.
// Callers: the Vector engine. Any thread; MXCSR comes back as it was. Operations are those of
// alu().
#ifndef DRIVER_EMULATOR_NUMERICS_SCAN_H
#define DRIVER_EMULATOR_NUMERICS_SCAN_H

#include <cstddef>

#include "driver/emulator/numerics/float_environment.h"
#include "hw/isa.h"

namespace neuron::numerics {

// s = op1(op0(a[i], s), b[i]), out[i] = s; reversed: op0(s, a[i]) and op1(b[i], ...). rows is at
// most 128. out may be a or b.
struct ScanOperations {
  unsigned op0 = NEURON_ALU_BYPASS;
  bool reverse0 = false;
  unsigned op1 = NEURON_ALU_BYPASS;
  bool reverse1 = false;
};
void scan_columns(const ScanOperations& operations, const float* a, const float* b, float* out,
                  size_t stride, size_t rows, size_t n, float* state,
                  Subnormals subnormals = Subnormals::kKeep);

// s = op(x[i], s), out[i] = s. out may be x.
void accumulate_columns(unsigned op, const float* x, float* out, size_t stride, size_t rows,
                        size_t n, float* state, Subnormals subnormals = Subnormals::kKeep);

}  // namespace neuron::numerics
#endif
