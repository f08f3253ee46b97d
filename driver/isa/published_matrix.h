// SPDX-License-Identifier: Apache-2.0
// Model time of a matrix product on a chip whose instruction set is not public: its published peak
// rate, and nothing else, so that no real product is faster.
//
// Callers: tools; any thread. Constants. Fails: no value for a generation that has instructions
// (cost.h has their time), and for a type whose rate is not published.
#ifndef DRIVER_ISA_PUBLISHED_MATRIX_H
#define DRIVER_ISA_PUBLISHED_MATRIX_H

#include <cstdint>
#include <optional>

#include "driver/isa/generation.h"
#include "hw/isa.h"

namespace neuron::isa {

struct MatrixShape {
  uint64_t rows, depth, columns;
};

// Operations per picosecond of one core, where a multiplication and an addition are two.
// Inferentia1 (architecture page): a chip of four cores does 64 TFLOPS of fp16 and bf16 and 128
// TOPS of int8.
constexpr uint64_t published_matrix_rate(unsigned generation, uint8_t dtype) {
  if (generation != 1) return 0;
  if (dtype == NEURON_DTYPE_BF16 || dtype == NEURON_DTYPE_F16) return 16;
  return dtype == NEURON_DTYPE_I8 ? 32 : 0;
}

constexpr std::optional<ModelTime> published_matrix_time(unsigned generation, uint8_t dtype,
                                                         MatrixShape shape) {
  const uint64_t rate = published_matrix_rate(generation, dtype);
  if (rate == 0) return std::nullopt;
  return (2 * shape.rows * shape.depth * shape.columns + rate - 1) / rate;
}

}  // namespace neuron::isa

#endif
