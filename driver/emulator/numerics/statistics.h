// SPDX-License-Identifier: Apache-2.0
// Mean and variance of the Vector engine (bn_stats, bn_aggr), in fp32 and in a defined order.
//
// bn_stats splits a row into its even and odd elements. Element k adds to chain k mod 32, in
// ascending order from +0; chains q and q + 16, then q + 8, q + 4 and q + 2 are added, which leaves
// one sum for the even and one for the odd elements. mean = sum / count; the squares (x - mean)^2
// are summed in the same order, each step one fma. NaN results are 0x7FC00000.
// Callers: the Vector engine. Any thread; MXCSR comes back as it was; no allocation, no failure.
#ifndef DRIVER_EMULATOR_NUMERICS_STATISTICS_H
#define DRIVER_EMULATOR_NUMERICS_STATISTICS_H

#include <cstddef>

#include "driver/emulator/numerics/float_environment.h"
#include "driver/emulator/numerics/row.h"

namespace neuron::numerics {

// out = count, mean, variance * count of the even elements, then of the odd ones. No element: three
// zeros.
void parity_statistics(const float* x, size_t n, float out[6],
                       Subnormals subnormals = Subnormals::kKeep);
// The same for rows that lie `stride` floats apart; six values each, packed.
void parity_statistics_rows(const float* x, ptrdiff_t stride, size_t rows, size_t n, float* out,
                            Subnormals subnormals = Subnormals::kKeep);

// The same for rows of bf16 in memory, with subnormals kept; ignores `bf16` of x. Returns false and
// does nothing if the length is not a multiple of the chains.
bool parity_statistics_bf16(const SourceRows& x, size_t rows, size_t n, float* out);

// The triples (count, mean, variance * count) of one row, combined in ascending order:
// total = sum of counts, mean = sum of count * mean / total, variance = (sum of variance * count +
// sum of count * (its mean - mean)^2) / total. out = mean, variance; NaN when nothing was counted.
void combine_statistics(const float* triples, size_t k, float out[2],
                        Subnormals subnormals = Subnormals::kKeep);

}  // namespace neuron::numerics
#endif
