// SPDX-License-Identifier: Apache-2.0
// Elements of a tensor operand, one partition at a time, in stream order.
//
// Contiguous dimensions are merged, so most operands are one run per partition, which the bulk
// routines of numerics convert. Patterns stay inside a partition, but step 0 may repeat elements
// without bound, so callers work in pieces of at most kPiece elements.
// Callers: engines, in the group's thread. The operand has been checked (isa::check_operands).
// Never fails, never allocates.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_OPERAND_VIEW_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_OPERAND_VIEW_H

#include <cstddef>
#include <cstdint>

#include "driver/emulator/neuroncore/sequencer/core_memory.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/isa/instruction.h"

namespace neuron::core {

inline constexpr size_t kPiece = 8192;  // elements that engines hold at a time

class OperandView {
 public:
  OperandView(CoreMemory& memory, const isa::Operand& operand);

  unsigned partitions() const { return parts_; }
  uint64_t elements() const { return elements_; }
  unsigned dtype() const { return dtype_; }
  unsigned element_bytes() const { return element_bytes_; }
  // True if each partition is one run of `step`, which the bulk routines take directly.
  bool single_run() const { return ndim_ == 1; }
  bool contiguous() const { return ndim_ == 1 && (size_[0] <= 1 || step_[0] == 1); }
  ptrdiff_t step() const { return step_[0]; }
  std::byte* row(unsigned part) const { return base_ + part * row_stride_; }
  size_t row_stride() const { return row_stride_; }

  // Elements [first, first + n) of the stream of partition `part`, as fp32.
  void load(unsigned part, uint64_t first, size_t n, float* out) const;
  // The same without a copy where the row is contiguous fp32: a pointer to memory, else `scratch`
  // filled by load.
  const float* load_or_map(unsigned part, uint64_t first, size_t n, float* scratch) const;
  void store(unsigned part, uint64_t first, size_t n, const float* in,
             const numerics::NarrowMode& mode, numerics::RandomStream* random) const;
  // Raw bits of elements, packed.
  void load_raw(unsigned part, uint64_t first, size_t n, std::byte* out) const;
  void store_raw(unsigned part, uint64_t first, size_t n, const std::byte* in) const;

  // Byte range inside the partition that the pattern touches.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  // True if writing `this` element by element could change an element of `source` that is read
  // later.
  bool clobbers(const OperandView& source) const;

 private:
  template <class Run>
  void for_runs(uint64_t first, size_t n, Run&& run) const;

  std::byte* base_;
  size_t row_stride_;
  uint64_t elements_;
  size_t begin_, end_;
  unsigned parts_, start_, dtype_, space_, element_bytes_;
  int ndim_;
  uint8_t bias_;
  uint64_t size_[4];
  ptrdiff_t step_[4];
};

}  // namespace neuron::core

#endif
