// SPDX-License-Identifier: Apache-2.0
// Tensor: a name of dense memory with a shape, and how its elements are reached.
//
// Tensors of arguments are copies of device memory that cannot be written; the output and what the
// factories make can. Callers: operators, in their only thread. Copies name the same memory. Fails:
// by ending the call.
#ifndef DRIVER_OPERATOR_TENSOR_H
#define DRIVER_OPERATOR_TENSOR_H

#include <memory>

#include "driver/operator/accessor.h"
#include "driver/operator/stream.h"
#include "driver/operator/tcm.h"

namespace torch {

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}

  bool defined() const { return storage_ != nullptr; }
  int64_t numel() const { return storage().count; }
  int64_t dim() const { return static_cast<int64_t>(storage().sizes.size()); }
  int64_t size(int64_t dimension) const;
  IntArrayRef sizes() const { return storage().sizes; }
  IntArrayRef strides() const { return storage().strides; }
  ScalarType scalar_type() const { return storage().type; }
  ScalarType dtype() const { return storage().type; }
  size_t element_size() const { return size_of(storage().type); }
  size_t nbytes() const { return element_size() * static_cast<size_t>(numel()); }
  TensorOptions options() const { return {storage().type}; }

  template <typename T, size_t N>
  TensorAccessor<T, N, true> accessor() const& {
    check_accessor<T>(N);
    return {reinterpret_cast<const T*>(storage_->data), storage_->sizes.data(),
            storage_->strides.data()};
  }
  template <typename T, size_t N>
  TensorAccessor<T, N, false> accessor() & {
    check_accessor<T>(N);
    return {reinterpret_cast<T*>(storage_->data), storage_->sizes.data(), storage_->strides.data()};
  }
  template <typename T>
  TensorReadStreamAccessor<T> read_stream_accessor() const& {
    return TensorReadStreamAccessor<T>(shared());
  }
  template <typename T>
  TensorWriteStreamAccessor<T> write_stream_accessor() & {
    return TensorWriteStreamAccessor<T>(shared());
  }
  TensorTcmAccessor<true> tcm_accessor() const& { return TensorTcmAccessor<true>(shared()); }
  TensorTcmAccessor<false> tcm_accessor() & { return TensorTcmAccessor<false>(shared()); }

  CoherencyEnforcer::Policy get_accessor_coherence_policy() const { return storage().policy; }
  void set_accessor_coherence_policy(CoherencyEnforcer::Policy policy) const {
    shared()->policy = policy;
  }
  Tensor& fill_(const Scalar& value) const;

  Storage& storage() const { return *shared(); }

 private:
  const std::shared_ptr<Storage>& shared() const {
    if (storage_ == nullptr) {
      ::neuron::operators::fail(NEURON_OPERATOR_SHAPE, 0, "a tensor is used that was never made");
    }
    return storage_;
  }
  template <typename T>
  void check_accessor(size_t dimensions) const {
    check_single_core();
    check_type<T>(storage());
    if (dimensions != storage().sizes.size()) {
      ::neuron::operators::fail(NEURON_OPERATOR_SHAPE, dimensions,
                                "an accessor has another number of dimensions than its tensor");
    }
  }

  std::shared_ptr<Storage> storage_;
};

Tensor empty(IntArrayRef size, TensorOptions options);
Tensor full(IntArrayRef size, const Scalar& fill_value, TensorOptions options);
Tensor zeros(IntArrayRef size, TensorOptions options);
Tensor ones(IntArrayRef size, TensorOptions options);
Tensor eye(int64_t n, int64_t m, TensorOptions options);

}  // namespace torch

// The output of the call; what the operator returns is then not looked at.
torch::Tensor get_dst_tensor();

#endif
