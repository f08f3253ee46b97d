// SPDX-License-Identifier: Apache-2.0
// Elementwise ALU operations (NEURON_ALU_*) of the Vector, Pool and Activation engines, and
// reductions.
//
// Arithmetic is fp32 with one rounding per operation; comparisons and logical operations give 1.0
// or 0.0; a NaN result is 0x7FC00000 (bypass keeps the bits). max and min give NaN when either
// operand is NaN, and order -0 below +0. Bit operations work on raw integers of 1, 2 or 4 bytes.
// Callers: engines, one partition (row) or one block of partitions at a time. Any thread; out may
// be equal to an input but must not overlap otherwise; MXCSR comes back as it was. An operation
// that the function does not cover writes NaN (bits: nothing): ask alu_is_* first; the engine
// checks which operation is legal in which instruction.
#ifndef DRIVER_EMULATOR_NUMERICS_ALU_H
#define DRIVER_EMULATOR_NUMERICS_ALU_H

#include <cstddef>
#include <cstdint>

#include "driver/emulator/numerics/float_environment.h"
#include "hw/isa.h"

namespace neuron::numerics {

bool alu_is_arithmetic(unsigned op);  // one that alu() and alu_scalar() compute
bool alu_is_bitwise(unsigned op);     // one that alu_bits() computes
bool alu_is_unary(unsigned op);       // ignores operand b (for bits: not)
bool alu_is_reducible(unsigned op);   // one that reduce() computes

// out[i] = a[i] op b[i]
void alu(unsigned op, const float* a, const float* b, float* out, size_t n,
         Subnormals subnormals = Subnormals::kKeep);
// out[i] = a[i] op s, or s op a[i] when reversed. A reversed unary operation works on s.
void alu_scalar(unsigned op, const float* a, float s, bool reverse, float* out, size_t n,
                Subnormals subnormals = Subnormals::kKeep);

// The same for packed rows of n elements, row r with scalars[r].
void alu_scalar_rows(unsigned op, const float* a, const float* scalars, bool reverse, float* out,
                     size_t rows, size_t n, Subnormals subnormals = Subnormals::kKeep);

// The same on raw integers of element_bytes 1, 2 or 4. Shift counts are b as an unsigned number;
// counts beyond the width shift everything out.
void alu_bits(unsigned op, const std::byte* a, const std::byte* b, std::byte* out,
              unsigned element_bytes, size_t n);
void alu_bits_scalar(unsigned op, const std::byte* a, uint32_t s, bool reverse, std::byte* out,
                     unsigned element_bytes, size_t n);

// The value that a reduction starts from when no value was loaded: 0 for add, subtract, logical or
// and xor, abs_max; 1 for mul and logical and; -inf for max; +inf for min and abs_min.
float reduce_identity(unsigned op);
// (x0 - x1 - ... starts from x0 and reduces the rest.)
// acc = acc op in[i] for ascending i, strictly one after the other.
float reduce(unsigned op, const float* in, size_t n, float acc,
             Subnormals subnormals = Subnormals::kKeep);
// The same for many rows at once, vectorised over rows: acc[r] = acc[r] op in[r * row_stride + i].
// row_stride in floats.
void reduce_rows(unsigned op, const float* in, ptrdiff_t row_stride, size_t rows, size_t n,
                 float* acc, Subnormals subnormals = Subnormals::kKeep);

// and, or, xor of raw integers, from acc; other operations leave acc as it is.
uint32_t reduce_bits(unsigned op, const std::byte* in, unsigned element_bytes, size_t n,
                     uint32_t acc);

}  // namespace neuron::numerics
#endif
