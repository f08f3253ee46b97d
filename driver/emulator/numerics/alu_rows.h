// SPDX-License-Identifier: Apache-2.0
// Elementwise ALU work on rows in memory (row.h), and their greatest and smallest elements, without
// a packed fp32 copy. The bits are those of alu() and reduce().
//
// Callers: the Vector engine, where alu_rows_cover says so; else it works on packed blocks.
// Any thread; MXCSR comes back as it was. `out` may be the very memory of a source of the same
// element size but must not overlap it otherwise.
#ifndef DRIVER_EMULATOR_NUMERICS_ALU_ROWS_H
#define DRIVER_EMULATOR_NUMERICS_ALU_ROWS_H

#include "driver/emulator/numerics/row.h"

namespace neuron::numerics {

// out = (x op0 scalars0[row]) op1 second, with operands swapped by reverse; `second` is y, or
// scalars1[row] where y has no data. Bypass leaves its left side and takes no operand.
struct AluRows {
  unsigned op0 = NEURON_ALU_BYPASS;
  unsigned op1 = NEURON_ALU_BYPASS;
  bool reverse0 = false;
  bool reverse1 = false;
  const float* scalars0 = nullptr;
  const float* scalars1 = nullptr;
  SourceRows x, y;
  ResultRows out;

  // The same from row `row` on.
  AluRows from(size_t row) const {
    AluRows rest = *this;
    rest.x = x.from_row(row);
    if (y.data != nullptr) rest.y = y.from_row(row);
    rest.out = out.from_row(row);
    if (scalars0 != nullptr) rest.scalars0 = scalars0 + row;
    if (scalars1 != nullptr) rest.scalars1 = scalars1 + row;
    return rest;
  }
};

// add, sub, mul and bypass first, these, max and min second; not bypass twice, which keeps bits.
bool alu_rows_cover(unsigned op0, unsigned op1);
void alu_rows(const AluRows& work, size_t rows, size_t n);

// acc[r] = max or min of acc[r] and the n elements of row r.
void extreme_bf16_rows(unsigned op, const SourceRows& in, size_t rows, size_t n, float* acc);

}  // namespace neuron::numerics
#endif
