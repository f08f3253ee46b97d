// SPDX-License-Identifier: Apache-2.0
// Operands as rows that the numerics load and store themselves (numerics/row.h).
//
// Callers: elementwise units, which fall back to packed blocks (block_loop.h) where rows_allowed
// says no. Group thread; never fails.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_ROW_ACCESS_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_ROW_ACCESS_H

#include "driver/emulator/neuroncore/engines/unit_context.h"
#include "driver/emulator/numerics/row.h"

namespace neuron::core {

// Rows of at least this length are worth a call each.
inline constexpr uint64_t kShortestRow = 64;

inline bool is_row(const OperandView& view) {
  return numerics::has_rows(view.dtype()) && view.contiguous() && view.elements() >= kShortestRow;
}
inline numerics::SourceRows source_rows(const OperandView& view) {
  return {view.row(0), view.row_stride(), view.dtype() == NEURON_DTYPE_BF16};
}
inline numerics::ResultRows result_rows(const OperandView& view) {
  return {view.row(0), view.row_stride(), view.dtype() == NEURON_DTYPE_BF16};
}

// Whether the row loops support the instruction's modes, and its result is a row.
inline bool rows_allowed(const UnitContext& context, const isa::Operand& operand,
                         const OperandView& dst) {
  const numerics::NarrowMode mode = context.narrow_mode(operand);
  return context.subnormals == numerics::Subnormals::kKeep && !context.check_nan &&
         mode.rounding == numerics::Rounding::kNearestEven && !mode.saturate && is_row(dst);
}

// Whether a scalar for each partition stays unchanged while the result is written.
inline bool lies_apart(const isa::Scalar& scalar, const isa::Operand& dst,
                       const OperandView& view) {
  if (scalar.kind != NEURON_SCALAR_POINTER || scalar.space != dst.space) return true;
  const uint64_t end = uint64_t{scalar.value} + isa::dtype_bytes(scalar.dtype);
  return end <= view.begin() || view.end() <= scalar.value;
}

}  // namespace neuron::core

#endif
