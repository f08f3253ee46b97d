// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/tensor.h"

namespace neuron::runtime {

TensorView Tensor::view() const {
  std::lock_guard lock(mutex_);
  return view_;
}

uint64_t Tensor::size() const {
  std::lock_guard lock(mutex_);
  return view_.size;
}

void Tensor::attach(void* buffer, uint64_t size) {
  TensorView fresh{Storage::attached(buffer, size), 0, size};
  std::lock_guard lock(mutex_);
  std::swap(view_, fresh);
}

Result<TensorView> Tensor::range(const char* what, uint64_t offset, uint64_t size) const {
  TensorView view = this->view();
  if (view.storage == nullptr) {
    return fail(NRT_INVALID, "{} of tensor '{}': it is empty; attach a buffer first", what, name_);
  }
  if (offset > view.size || size > view.size - offset) {
    return fail(NRT_INVALID,
                "{} of {} bytes at offset {} does not fit tensor '{}', which has {} bytes", what,
                size, offset, name_, view.size);
  }
  return view;
}

Result<void> Tensor::write(const void* from, uint64_t offset, uint64_t size) {
  NEURON_TRY(view, range("a write", offset, size));
  if (size == 0) return {};
  return view.storage->write(from, view.offset + offset, size);
}

Result<void> Tensor::read(void* to, uint64_t offset, uint64_t size) const {
  NEURON_TRY(view, range("a read", offset, size));
  if (size == 0) return {};
  return view.storage->read(to, view.offset + offset, size);
}

Result<void> Tensor::fill(uint64_t offset, uint64_t size, int value) {
  NEURON_TRY(view, range("a fill", offset, size));
  if (size == 0) return {};
  return view.storage->fill(view.offset + offset, size, value);
}

Result<std::pair<TensorView, TensorView>> Tensor::plan_copy(const Tensor& source,
                                                            uint64_t source_offset,
                                                            const Tensor& target,
                                                            uint64_t target_offset, uint64_t size) {
  NEURON_TRY(from, source.range("a copy", source_offset, size));
  NEURON_TRY(to, target.range("a copy", target_offset, size));
  if (size != 0 && from.storage == to.storage) {
    const uint64_t first = from.offset + source_offset;
    const uint64_t second = to.offset + target_offset;
    // A copy of a range onto itself changes nothing.
    if (first != second && first < second + size && second < first + size) {
      return fail(
          NRT_INVALID,
          "a copy of {} bytes from offset {} of tensor '{}' to offset {} of tensor '{}': "
          "both lie in one buffer and the ranges overlap by {} bytes; copy at most {} bytes "
          "at a time, or through another tensor",
          size, source_offset, source.name_, target_offset, target.name_,
          size - (first < second ? second - first : first - second),
          first < second ? second - first : first - second);
    }
  }
  if (size != 0 && from.storage->kind() == StorageKind::kDevice &&
      to.storage->kind() == StorageKind::kDevice) {
    const DeviceMemory& a = *from.storage->memory();
    const DeviceMemory& b = *to.storage->memory();
    // Generation 2: each core has its own HBM.
    if (&a.device() != &b.device() || a.core() != b.core()) {
      return fail(NRT_INVALID,
                  "tensor '{}' is in HBM {} of device {} and tensor '{}' in HBM {} of device {}; "
                  "nrt_tensor_copy works inside one HBM, use nrt_tensor_read and nrt_tensor_write",
                  source.name_, a.core(), a.device().index(), target.name_, b.core(),
                  b.device().index());
    }
  }
  from.offset += source_offset;
  to.offset += target_offset;
  return std::pair{std::move(from), std::move(to)};
}

Result<void> Tensor::copy(const Tensor& source, uint64_t source_offset, Tensor& target,
                          uint64_t target_offset, uint64_t size) {
  NEURON_TRY(plan, plan_copy(source, source_offset, target, target_offset, size));
  const auto& [from, to] = plan;
  if (size == 0 || (from.storage == to.storage && from.offset == to.offset)) return {};
  return Storage::copy(*from.storage, from.offset, *to.storage, to.offset, size);
}

Result<std::unique_ptr<Tensor>> Tensor::slice(uint64_t offset, uint64_t size,
                                              std::string name) const {
  if (size == 0) {
    return fail(NRT_INVALID,
                "a slice of 0 bytes of tensor '{}' was asked for; a slice has at least 1 byte",
                name_);
  }
  NEURON_TRY(view, range("a slice", offset, size));
  return std::make_unique<Tensor>(std::move(name),
                                  TensorView{view.storage, view.offset + offset, size});
}

}  // namespace neuron::runtime
