// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ccom/reduction/float_scope.h"
#include "ccom/reduction/reduction.h"
#include "driver/base/small_float.h"

namespace neuron::ccom {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Fp32Element {
  static constexpr uint64_t kBytes = 4;
  static float get(const std::byte* from) { return load<float>(from); }
  static void put(float value, std::byte* to) { std::memcpy(to, &value, 4); }
};

template <class Code, const base::SmallFloat& format>
struct SmallElement {
  static constexpr uint64_t kBytes = sizeof(Code);
  static float get(const std::byte* from) { return widen(format, load<Code>(from)); }
  static void put(float value, std::byte* to) {
    const auto code = static_cast<Code>(narrow(format, value));
    std::memcpy(to, &code, sizeof code);
  }
};

template <class T>
struct IntegerElement {
  static constexpr uint64_t kBytes = sizeof(T);
  static T get(const std::byte* from) { return load<T>(from); }
  static void put(T value, std::byte* to) { std::memcpy(to, &value, sizeof value); }
};

float canonical(float value) {
  return std::isnan(value) ? std::bit_cast<float>(base::kQuietNan) : value;
}

float apply(ccom_reduction_t reduction, float a, float b) {
  switch (reduction) {
    case CCOM_PRODUCT:
      return a * b;
    case CCOM_MIN:
    case CCOM_MAX:
      if (std::isnan(a) || std::isnan(b)) return std::bit_cast<float>(base::kQuietNan);
      if (a == b) return std::signbit(a) == (reduction == CCOM_MIN) ? a : b;
      return (a < b) == (reduction == CCOM_MIN) ? a : b;
    default:
      return a + b;
  }
}

template <class T>
T apply(ccom_reduction_t reduction, T a, T b) requires std::is_integral_v<T> {
  // Unsigned and too wide to be promoted to int, so wrapping is defined.
  using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  switch (reduction) {
    case CCOM_PRODUCT:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case CCOM_MIN:
      return a < b ? a : b;
    case CCOM_MAX:
      return a < b ? b : a;
    default:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <class T>
T divide(T value, uint32_t divisor) {
  if constexpr (std::is_same_v<T, float>) {
    return value / static_cast<float>(divisor);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(divisor));
  } else {
    return static_cast<T>(static_cast<uint64_t>(value) / divisor);
  }
}

template <class Element>
void reduce_elements(ccom_reduction_t reduction, std::byte* result,
                     const std::byte* const* operands, uint32_t count, uint64_t elements,
                     uint32_t divisor) {
  for (uint64_t i = 0; i < elements; ++i) {
    auto value = Element::get(operands[0] + i * Element::kBytes);
    for (uint32_t k = 1; k < count; ++k) {
      value = apply(reduction, value, Element::get(operands[k] + i * Element::kBytes));
    }
    if (divisor != 0) value = divide(value, divisor);
    if constexpr (std::is_same_v<decltype(value), float>) value = canonical(value);
    Element::put(value, result + i * Element::kBytes);
  }
}

template <class Visitor>
void for_type(ccom_type_t type, Visitor visit) {
  switch (type) {
    case CCOM_UINT8:
      return visit(IntegerElement<uint8_t>{});
    case CCOM_INT8:
      return visit(IntegerElement<int8_t>{});
    case CCOM_FP8_E3:
      return visit(SmallElement<uint8_t, base::kFp8E3>{});
    case CCOM_FP8_E4:
      return visit(SmallElement<uint8_t, base::kFp8E4>{});
    case CCOM_FP8_E5:
      return visit(SmallElement<uint8_t, base::kFp8E5>{});
    case CCOM_UINT16:
      return visit(IntegerElement<uint16_t>{});
    case CCOM_INT16:
      return visit(IntegerElement<int16_t>{});
    case CCOM_FP16:
      return visit(SmallElement<uint16_t, base::kFp16>{});
    case CCOM_BF16:
      return visit(SmallElement<uint16_t, base::kBf16>{});
    case CCOM_UINT32:
      return visit(IntegerElement<uint32_t>{});
    case CCOM_INT32:
      return visit(IntegerElement<int32_t>{});
    case CCOM_FP32:
      return visit(Fp32Element{});
    case CCOM_UINT64:
      return visit(IntegerElement<uint64_t>{});
    case CCOM_INT64:
      return visit(IntegerElement<int64_t>{});
    case CCOM_TYPE_COUNT:
      return;
  }
}

}  // namespace

void reduce_reference(ccom_type_t type, ccom_reduction_t reduction, std::byte* result,
                      const std::byte* const* operands, uint32_t count, uint64_t elements,
                      uint32_t divisor) {
  const FloatScope scope;
  for_type(type, [&](auto element) {
    reduce_elements<decltype(element)>(reduction, result, operands, count, elements, divisor);
  });
}

}  // namespace neuron::ccom
