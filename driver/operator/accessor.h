// SPDX-License-Identifier: Apache-2.0
// TensorAccessor: elements of a tensor in device memory, in any order, one at a time.
//
// Every evaluation of operator[] of the last dimension counts as one access, whether it reads or
// writes. Callers: operators. Thread-safe: no. Borrows the tensor, which outlives it. Fails: an
// index outside of its dimension ends the call (BOUNDS).
#ifndef DRIVER_OPERATOR_ACCESSOR_H
#define DRIVER_OPERATOR_ACCESSOR_H

#include <type_traits>

#include "driver/operator/storage.h"

namespace torch {

template <typename T, size_t N, bool read_only>
class TensorAccessor {
 public:
  using Element = std::conditional_t<read_only, const T, T>;

  TensorAccessor(Element* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}

  decltype(auto) operator[](int64_t index) const {
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(sizes_[0])) {
      ::neuron::operators::fail(NEURON_OPERATOR_BOUNDS, static_cast<uint64_t>(index),
                                "an accessor is used outside of its tensor");
    }
    Element* element = data_ + index * strides_[0];
    if constexpr (N == 1) {
      ++::neuron::operators::counts.elements;
      return *element;
    } else {
      return TensorAccessor<T, N - 1, read_only>(element, sizes_ + 1, strides_ + 1);
    }
  }
  int64_t size(int64_t dimension) const { return sizes_[dimension]; }
  int64_t stride(int64_t dimension) const { return strides_[dimension]; }
  IntArrayRef sizes() const { return {sizes_, N}; }
  IntArrayRef strides() const { return {strides_, N}; }

 private:
  Element* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

}  // namespace torch

#endif
