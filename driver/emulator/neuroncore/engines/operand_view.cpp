// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/operand_view.h"

#include <algorithm>
#include <cstring>

#include "driver/base/abandonment.h"

namespace neuron::core {

OperandView::OperandView(CoreMemory& memory, const isa::Operand& operand)
    : base_(memory.row(operand.space, operand.start) + operand.base),
      row_stride_(CoreMemory::stride(operand.space)),
      elements_(operand.elements()),
      parts_(operand.parts),
      start_(operand.start),
      dtype_(operand.dtype),
      space_(operand.space),
      element_bytes_(isa::dtype_bytes(operand.dtype)),
      ndim_(0),
      bias_(operand.bias) {
  ptrdiff_t low = 0;
  ptrdiff_t high = 0;
  for (int d = 0; d < operand.ndim; ++d) {
    const uint64_t size = operand.size[d];
    const ptrdiff_t step = operand.step[d];
    const ptrdiff_t reach = static_cast<ptrdiff_t>(size - 1) * step;
    (reach < 0 ? low : high) += reach;
    if (size == 1 && ndim_ > 0) continue;
    // Dimension d continues the one before if its step is that one's whole length.
    if (ndim_ > 0 && (step == step_[ndim_ - 1] * static_cast<ptrdiff_t>(size_[ndim_ - 1]))) {
      size_[ndim_ - 1] *= size;
      continue;
    }
    if (ndim_ == 1 && size_[0] == 1) {  // a leading dimension of one element says nothing
      size_[0] = size;
      step_[0] = step;
      continue;
    }
    size_[ndim_] = size;
    step_[ndim_] = step;
    ++ndim_;
  }
  begin_ = operand.base + static_cast<size_t>(low * static_cast<ptrdiff_t>(element_bytes_));
  end_ = operand.base + static_cast<size_t>((high + 1) * static_cast<ptrdiff_t>(element_bytes_));
}

// Calls run(pointer offset in elements, position in the piece, count) for each innermost run of the
// elements [first, first + n).
template <class Run>
void OperandView::for_runs(uint64_t first, size_t n, Run&& run) const {
  // Nearly all that engines do passes here: a core that is reset need not wait for its instruction.
  base::Abandonment::look();
  if (ndim_ == 1) {
    run(static_cast<ptrdiff_t>(first) * step_[0], size_t{0}, n);
    return;
  }
  uint64_t index[4] = {};
  ptrdiff_t at = 0;
  uint64_t rest = first;
  for (int d = 0; d < ndim_; ++d) {
    index[d] = d + 1 == ndim_ ? rest : rest % size_[d];
    rest /= size_[d];
    at += static_cast<ptrdiff_t>(index[d]) * step_[d];
  }
  size_t done = 0;
  uint32_t runs = 0;
  while (done < n) {
    base::Abandonment::look_now_and_then(runs);
    const size_t count = std::min<size_t>(n - done, size_[0] - index[0]);
    run(at, done, count);
    done += count;
    index[0] += count;
    at += static_cast<ptrdiff_t>(count) * step_[0];
    for (int d = 0; d + 1 < ndim_ && index[d] == size_[d]; ++d) {
      at -= static_cast<ptrdiff_t>(size_[d]) * step_[d];
      index[d] = 0;
      ++index[d + 1];
      at += step_[d + 1];
    }
  }
}

void OperandView::load(unsigned part, uint64_t first, size_t n, float* out) const {
  const std::byte* from = row(part);
  for_runs(first, n, [&](ptrdiff_t at, size_t done, size_t count) {
    numerics::widen(dtype_, from + at * static_cast<ptrdiff_t>(element_bytes_), step_[0],
                    out + done, count, bias_);
  });
}

const float* OperandView::load_or_map(unsigned part, uint64_t first, size_t n,
                                      float* scratch) const {
  if (dtype_ == NEURON_DTYPE_F32 && contiguous()) {
    base::Abandonment::look();
    return reinterpret_cast<const float*>(row(part)) + first;
  }
  load(part, first, n, scratch);
  return scratch;
}

void OperandView::store(unsigned part, uint64_t first, size_t n, const float* in,
                        const numerics::NarrowMode& mode, numerics::RandomStream* random) const {
  std::byte* to = row(part);
  numerics::NarrowMode with_bias = mode;
  with_bias.bias = bias_;
  for_runs(first, n, [&](ptrdiff_t at, size_t done, size_t count) {
    numerics::narrow(dtype_, in + done, to + at * static_cast<ptrdiff_t>(element_bytes_), step_[0],
                     count, with_bias, random);
  });
}

void OperandView::load_raw(unsigned part, uint64_t first, size_t n, std::byte* out) const {
  const std::byte* from = row(part);
  const ptrdiff_t bytes = element_bytes_;
  for_runs(first, n, [&](ptrdiff_t at, size_t done, size_t count) {
    if (step_[0] == 1) {
      std::memcpy(out + done * bytes, from + at * bytes, count * bytes);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(out + (done + i) * bytes,
                  from + (at + static_cast<ptrdiff_t>(i) * step_[0]) * bytes, bytes);
    }
  });
}

void OperandView::store_raw(unsigned part, uint64_t first, size_t n, const std::byte* in) const {
  std::byte* to = row(part);
  const ptrdiff_t bytes = element_bytes_;
  for_runs(first, n, [&](ptrdiff_t at, size_t done, size_t count) {
    if (step_[0] == 1) {
      std::memcpy(to + at * bytes, in + done * bytes, count * bytes);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(to + (at + static_cast<ptrdiff_t>(i) * step_[0]) * bytes, in + (done + i) * bytes,
                  bytes);
    }
  });
}

bool OperandView::clobbers(const OperandView& source) const {
  if (space_ != source.space_) return false;
  if (start_ + parts_ <= source.start_ || source.start_ + source.parts_ <= start_) return false;
  if (end_ <= source.begin_ || source.end_ <= begin_) return false;
  // The same pattern over the same elements: every element is read right before it is written.
  if (base_ == source.base_ && element_bytes_ == source.element_bytes_ && ndim_ == source.ndim_ &&
      std::equal(size_, size_ + ndim_, source.size_) &&
      std::equal(step_, step_ + ndim_, source.step_)) {
    // Unless it visits an address twice: dimensions must not reach into each other.
    uint64_t reach = 0;
    for (int d = 0; d < ndim_; ++d) {
      const uint64_t step = static_cast<uint64_t>(step_[d] < 0 ? -step_[d] : step_[d]);
      if (size_[d] > 1 && step <= reach) return true;
      reach += (size_[d] - 1) * step;
    }
    return false;
  }
  return true;
}

}  // namespace neuron::core
