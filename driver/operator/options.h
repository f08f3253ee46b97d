// SPDX-License-Identifier: Apache-2.0
// What describes a tensor beside its memory: element types, sizes, options, and scalars.
// Values, as the public interface of c10 has them; cannot fail.
#ifndef DRIVER_OPERATOR_OPTIONS_H
#define DRIVER_OPERATOR_OPTIONS_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "driver/operator/small_types.h"

namespace torch {

enum class ScalarType : int8_t { Byte, Char, Short, Int, Long, Half, Float, BFloat16 };

constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short,
                     kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong,
                     kFloat16 = kHalf, kFloat32 = kFloat;

constexpr size_t size_of(ScalarType type) {
  switch (type) {
    case kByte:
    case kChar:
      return 1;
    case kShort:
    case kHalf:
    case kBFloat16:
      return 2;
    case kInt:
    case kFloat:
      return 4;
    default:
      return 8;
  }
}
constexpr bool is_integral(ScalarType type) { return type <= ScalarType::Long; }

// The type of elements that are a T.
template <typename T>
constexpr ScalarType type_of() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_same_v<U, uint8_t> || std::is_same_v<U, int8_t> ||
                    std::is_same_v<U, int16_t> || std::is_same_v<U, int32_t> ||
                    std::is_same_v<U, int64_t> || std::is_same_v<U, Half> ||
                    std::is_same_v<U, float> || std::is_same_v<U, BFloat16>,
                "tensors of custom operators have elements of uint8_t, int8_t, int16_t, int32_t, "
                "int64_t, c10::Half, c10::BFloat16 or float");
  if constexpr (std::is_same_v<U, uint8_t>) return kByte;
  if constexpr (std::is_same_v<U, int8_t>) return kChar;
  if constexpr (std::is_same_v<U, int16_t>) return kShort;
  if constexpr (std::is_same_v<U, int32_t>) return kInt;
  if constexpr (std::is_same_v<U, int64_t>) return kLong;
  if constexpr (std::is_same_v<U, Half>) return kHalf;
  if constexpr (std::is_same_v<U, BFloat16>) return kBFloat16;
  return kFloat;
}

// Elements of somebody else.
template <typename T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, size_t count) : data_(data), count_(count) {}
  ArrayRef(const std::vector<T>& list) : ArrayRef(list.data(), list.size()) {}  // NOLINT: as c10
  ArrayRef(const std::initializer_list<T>& list)                                // NOLINT: as c10
      : ArrayRef(list.begin(), list.size()) {}

  const T* begin() const { return data_; }
  const T* end() const { return data_ + count_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const T& operator[](size_t index) const { return data_[index]; }
  std::vector<T> vec() const { return {begin(), end()}; }
  friend bool operator==(const ArrayRef& a, const ArrayRef& b) {
    if (a.count_ != b.count_) return false;
    for (size_t n = 0; n < a.count_; ++n) {
      if (!(a.data_[n] == b.data_[n])) return false;
    }
    return true;
  }
  friend bool operator!=(const ArrayRef& a, const ArrayRef& b) { return !(a == b); }

 private:
  const T* data_ = nullptr;
  size_t count_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type) {}  // NOLINT: as in c10
  TensorOptions dtype(ScalarType type) const { return {type}; }
  ScalarType dtype() const { return type_; }

 private:
  ScalarType type_ = kFloat;
};
inline TensorOptions dtype(ScalarType type) { return {type}; }

// A number: a double or a 64-bit integer.
class Scalar {
 public:
  Scalar() = default;
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value) : floating_(std::is_floating_point_v<T>) {  // NOLINT: as in c10
    if constexpr (std::is_floating_point_v<T>) {
      real_ = static_cast<double>(value);
    } else {
      whole_ = static_cast<int64_t>(value);
    }
  }

  bool isFloatingPoint() const { return floating_; }
  template <typename T>
  T to() const {
    if constexpr (std::is_arithmetic_v<T>) {
      return floating_ ? static_cast<T>(real_) : static_cast<T>(whole_);
    } else {
      return T(to<float>());
    }
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }

 private:
  bool floating_ = false;
  double real_ = 0;
  int64_t whole_ = 0;
};

}  // namespace torch

#endif
