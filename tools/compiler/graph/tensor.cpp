// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/tensor.h"

#include <cstring>
#include <limits>

#include "driver/base/small_float.h"

namespace neuron::graph {
namespace {

double real_at(Type type, const uint8_t* bytes) {
  if (type == Type::kF64) {
    double value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  if (type == Type::kF32) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  uint16_t code = 0;
  std::memcpy(&code, bytes, sizeof code);
  return base::widen(type == Type::kF16 ? base::kFp16 : base::kBf16, code);
}

void put_real(Type type, double value, uint8_t* bytes) {
  if (type == Type::kF64) {
    std::memcpy(bytes, &value, sizeof value);
    return;
  }
  const auto single = static_cast<float>(value);
  if (type == Type::kF32) {
    std::memcpy(bytes, &single, sizeof single);
    return;
  }
  const auto code =
      static_cast<uint16_t>(base::narrow(type == Type::kF16 ? base::kFp16 : base::kBf16, single));
  std::memcpy(bytes, &code, sizeof code);
}

// The product, or the largest number where 64 bits do not hold it.
int64_t product_of(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

}  // namespace

int64_t elements_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count = product_of(count, size);
  return count;
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = product_of(strides[d], shape[d]);
  return strides;
}

std::string shape_text(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

Tensor Tensor::zeros(Type type, Shape shape) {
  Tensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  const auto count = static_cast<size_t>(tensor.elements());
  if (is_real(type)) {
    tensor.reals.resize(count);
  } else {
    tensor.integers.resize(count);
  }
  return tensor;
}

Tensor Tensor::scalar(Type type, double value) {
  Tensor tensor = zeros(type, {});
  tensor.set(0, value);
  return tensor;
}

Tensor Tensor::of_integers(Type type, Shape shape, std::vector<int64_t> values) {
  Tensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.integers = std::move(values);
  return tensor;
}

Tensor Tensor::of_reals(Type type, Shape shape, std::vector<double> values) {
  Tensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.reals = std::move(values);
  return tensor;
}

double Tensor::real(size_t index) const {
  if (is_real(type)) return reals[index];
  if (type == Type::kU64) return static_cast<double>(static_cast<uint64_t>(integers[index]));
  return static_cast<double>(integers[index]);
}

int64_t Tensor::integer(size_t index) const {
  return is_real(type) ? truncated(Type::kI64, reals[index]) : integers[index];
}

void Tensor::set(size_t index, double value) {
  if (is_real(type)) {
    reals[index] = rounded(type, value);
  } else {
    integers[index] = truncated(type, value);
  }
}

std::vector<uint8_t> Tensor::bytes() const {
  const auto count = static_cast<size_t>(elements());
  const size_t item = type_bytes(type);
  std::vector<uint8_t> out(count * item);
  for (size_t i = 0; i < count; ++i) {
    if (is_real(type)) {
      put_real(type, reals[i], &out[i * item]);
    } else {
      std::memcpy(&out[i * item], &integers[i], item);
    }
  }
  return out;
}

Tensor Tensor::from_bytes(Type type, Shape shape, const uint8_t* bytes) {
  Tensor tensor = zeros(type, std::move(shape));
  const auto count = static_cast<size_t>(tensor.elements());
  const size_t item = type_bytes(type);
  for (size_t i = 0; i < count; ++i) {
    if (is_real(type)) {
      tensor.reals[i] = real_at(type, bytes + i * item);
    } else {
      int64_t value = 0;
      std::memcpy(&value, bytes + i * item, item);
      tensor.integers[i] = wrapped(type, value);
    }
  }
  return tensor;
}

}  // namespace neuron::graph
