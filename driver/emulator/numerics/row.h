// SPDX-License-Identifier: Apache-2.0
// Contiguous rows of fp32 or bf16 in memory, for loops that load, compute and store without a
// packed fp32 copy in between. They give the same bits as widen, compute, narrow.
//
// Callers: the engines, for operands without gaps, nearest even, no saturation, subnormals kept.
// Plain values; the memory belongs to the caller. Pointers need no alignment.
#ifndef DRIVER_EMULATOR_NUMERICS_ROW_H
#define DRIVER_EMULATOR_NUMERICS_ROW_H

#include <cstddef>

#include "hw/isa.h"

namespace neuron::numerics {

constexpr bool has_rows(unsigned dtype) {
  return dtype == NEURON_DTYPE_F32 || dtype == NEURON_DTYPE_BF16;
}

struct SourceRows {
  const std::byte* data = nullptr;
  size_t stride = 0;  // bytes from row to row
  bool bf16 = false;
  SourceRows from_row(size_t row) const { return {data + row * stride, stride, bf16}; }
};

struct ResultRows {
  std::byte* data = nullptr;
  size_t stride = 0;
  bool bf16 = false;
  ResultRows from_row(size_t row) const { return {data + row * stride, stride, bf16}; }
};

}  // namespace neuron::numerics
#endif
