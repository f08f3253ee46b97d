// SPDX-License-Identifier: Apache-2.0
#include "driver/operator/tensor.h"

#include <cstdio>
#include <cstring>

namespace torch {

Storage::Storage(IntArrayRef shape, ScalarType element) : type(element), sizes(shape.vec()) {
  measure();
  own_.reset(new std::byte[static_cast<size_t>(count) * size_of(type)]);
  data = own_.get();
}

Storage::Storage(IntArrayRef shape, ScalarType element, std::byte* memory)
    : data(memory), type(element), sizes(shape.vec()) {
  measure();
}

void Storage::measure() {
  if (sizes.size() > NEURON_OPERATOR_DIMENSIONS) {
    ::neuron::operators::fail(NEURON_OPERATOR_SHAPE, sizes.size(),
                              "a tensor has up to 8 dimensions");
  }
  strides.resize(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] < 0 || sizes[d] > NEURON_OPERATOR_DIMENSION_MAX) {
      ::neuron::operators::fail(NEURON_OPERATOR_SHAPE, static_cast<uint64_t>(sizes[d]),
                                "a dimension has up to 65535 elements");
    }
    strides[d] = count;
    if (count > INT64_MAX / 65536 / 8) {
      ::neuron::operators::fail(NEURON_OPERATOR_SHAPE, d, "a tensor has too many elements");
    }
    count *= sizes[d];
  }
}

void Storage::open_stream(bool writes) {
  const bool clash = write_streams != 0 || (writes && read_streams != 0);
  if (clash && policy == CoherencyEnforcer::COHERENT) {
    ::neuron::operators::fail(NEURON_OPERATOR_COHERENCE, 0,
                              "a stream is opened on a tensor beside one that writes it");
  }
  if (clash && policy == CoherencyEnforcer::INCOHERENT_VERBOSE) {
    std::printf("warning: a stream is opened on a tensor beside one that writes it\n");
  }
  writes ? ++write_streams : ++read_streams;
}

int64_t Tensor::size(int64_t dimension) const {
  const std::vector<int64_t>& sizes = storage().sizes;
  const auto count = static_cast<int64_t>(sizes.size());
  if (dimension < -count || dimension >= count) {
    ::neuron::operators::fail(NEURON_OPERATOR_SHAPE, static_cast<uint64_t>(dimension),
                              "a tensor is asked for a dimension that it has not");
  }
  return sizes[static_cast<size_t>(dimension < 0 ? dimension + count : dimension)];
}

namespace {

template <typename T>
void fill_with(Storage& storage, const Scalar& value) {
  const T element = value.to<T>();
  for (int64_t n = 0; n < storage.count; ++n) {
    std::memcpy(storage.data + static_cast<size_t>(n) * sizeof(T), &element, sizeof(T));
  }
}

}  // namespace

Tensor& Tensor::fill_(const Scalar& value) const {
  Storage& memory = storage();
  switch (memory.type) {
    case kByte:
      fill_with<uint8_t>(memory, value);
      break;
    case kChar:
      fill_with<int8_t>(memory, value);
      break;
    case kShort:
      fill_with<int16_t>(memory, value);
      break;
    case kInt:
      fill_with<int32_t>(memory, value);
      break;
    case kLong:
      fill_with<int64_t>(memory, value);
      break;
    case kHalf:
      fill_with<Half>(memory, value);
      break;
    case kBFloat16:
      fill_with<BFloat16>(memory, value);
      break;
    case kFloat:
      fill_with<float>(memory, value);
      break;
  }
  ::neuron::operators::counts.stream_elements += static_cast<uint64_t>(memory.count);
  return const_cast<Tensor&>(*this);
}

Tensor empty(IntArrayRef size, TensorOptions options) {
  return Tensor(std::make_shared<Storage>(size, options.dtype()));
}
Tensor full(IntArrayRef size, const Scalar& fill_value, TensorOptions options) {
  Tensor tensor = empty(size, options);
  tensor.fill_(fill_value);
  return tensor;
}
Tensor zeros(IntArrayRef size, TensorOptions options) { return full(size, 0, options); }
Tensor ones(IntArrayRef size, TensorOptions options) { return full(size, 1, options); }
Tensor eye(int64_t n, int64_t m, TensorOptions options) {
  const int64_t sizes[] = {n, m};
  Tensor tensor = zeros(IntArrayRef(sizes, 2), options);
  const Tensor one = ones(IntArrayRef(sizes, 0), options);
  const size_t bytes = tensor.element_size();
  for (int64_t i = 0; i < n && i < m; ++i) {
    std::memcpy(tensor.storage().data + static_cast<size_t>(i * m + i) * bytes, one.storage().data,
                bytes);
  }
  return tensor;
}

}  // namespace torch
