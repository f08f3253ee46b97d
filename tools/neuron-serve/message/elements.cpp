// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/message/elements.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace neuron::serve {
namespace {

template <class T>
void append_bytes(const T& value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// JSON's grammar of numbers, which is narrower than from_chars': no "inf", no "01", no "1.".
size_t number_length(std::string_view text) {
  const auto digits = [&](size_t at) {
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at;
  };
  size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
  const size_t whole = at;
  at = digits(at);
  if (at == whole || (text[whole] == '0' && at > whole + 1)) return 0;
  if (at < text.size() && text[at] == '.') {
    const size_t fraction = at + 1;
    at = digits(fraction);
    if (at == fraction) return 0;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    at = digits(exponent);
    if (at == exponent) return 0;
  }
  return at;
}

// Of the double that is nearest to the text.
uint16_t to_narrow(double value, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (mantissa_bits + exponent_bits) : 0;
  double magnitude = std::fabs(value);
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - bias);
  // In units of the last place: ties go to even by nearbyint's default mode.
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  const auto bits =
      static_cast<uint32_t>(units) + (static_cast<uint32_t>(exponent + bias - 1) << mantissa_bits);
  return static_cast<uint16_t>(sign | bits);
}

float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                : exponent     ? std::ldexp(1024.0F + static_cast<float>(mantissa), exponent - 25)
                               : std::ldexp(static_cast<float>(mantissa), -24);
  return bits & 0x8000 ? -value : value;
}

template <class T>
size_t append_integer(std::string_view number, std::string& bytes) {
  T value{};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return 0;
  append_bytes(value, bytes);
  return number.size();
}

template <class T>
T load(const char* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  return value;
}

template <class T>
void append_number(T value, std::string& text) {
  char buffer[48];
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      text += "null";
      return;
    }
  }
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  text.append(buffer, result.ptr);
}

}  // namespace

bool has_numbers(nrt_dtype_t dtype) {
  return dtype != NRT_DTYPE_FP8_E3 && dtype != NRT_DTYPE_FP8_E4 && dtype != NRT_DTYPE_FP8_E5;
}

size_t append_element(std::string_view text, nrt_dtype_t dtype, std::string& bytes) {
  const size_t length = number_length(text);
  if (length == 0) return 0;
  const std::string_view number = text.substr(0, length);
  const char* end = number.data() + length;
  switch (dtype) {
    case NRT_DTYPE_FLOAT32:
    case NRT_DTYPE_FP32R: {
      float value = 0;
      const auto result = std::from_chars(number.data(), end, value);
      if (result.ec == std::errc::result_out_of_range) {
        // Also said of what is too small, which is 0.
        double wide = 0;
        if (std::from_chars(number.data(), end, wide).ec != std::errc() || std::fabs(wide) > 1) {
          return 0;
        }
        value = static_cast<float>(wide);
      }
      append_bytes(value, bytes);
      return length;
    }
    case NRT_DTYPE_BFLOAT16:
    case NRT_DTYPE_FLOAT16: {
      double value = 0;
      if (std::from_chars(number.data(), end, value).ec != std::errc()) return 0;
      const bool half = dtype == NRT_DTYPE_FLOAT16;
      // Half a unit beyond the largest number is the first that rounds to infinity.
      if (std::fabs(value) >= (half ? 65520.0 : std::ldexp(511.0, 119))) return 0;
      const uint16_t bits = half ? to_narrow(value, 10, 5) : to_narrow(value, 7, 8);
      append_bytes(bits, bytes);
      return length;
    }
    case NRT_DTYPE_INT8:
      return append_integer<int8_t>(number, bytes);
    case NRT_DTYPE_INT16:
      return append_integer<int16_t>(number, bytes);
    case NRT_DTYPE_INT32:
      return append_integer<int32_t>(number, bytes);
    case NRT_DTYPE_INT64:
      return append_integer<int64_t>(number, bytes);
    case NRT_DTYPE_UINT16:
      return append_integer<uint16_t>(number, bytes);
    case NRT_DTYPE_UINT32:
      return append_integer<uint32_t>(number, bytes);
    case NRT_DTYPE_UINT64:
      return append_integer<uint64_t>(number, bytes);
    default:
      return append_integer<uint8_t>(number, bytes);
  }
}

void append_text(const char* element, nrt_dtype_t dtype, std::string& text) {
  switch (dtype) {
    case NRT_DTYPE_FLOAT32:
    case NRT_DTYPE_FP32R:
      return append_number(load<float>(element), text);
    case NRT_DTYPE_BFLOAT16:
      return append_number(
          std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(element)) << 16), text);
    case NRT_DTYPE_FLOAT16:
      return append_number(from_half(load<uint16_t>(element)), text);
    case NRT_DTYPE_INT8:
      return append_number<int>(load<int8_t>(element), text);
    case NRT_DTYPE_INT16:
      return append_number(load<int16_t>(element), text);
    case NRT_DTYPE_INT32:
      return append_number(load<int32_t>(element), text);
    case NRT_DTYPE_INT64:
      return append_number(load<int64_t>(element), text);
    case NRT_DTYPE_UINT16:
      return append_number(load<uint16_t>(element), text);
    case NRT_DTYPE_UINT32:
      return append_number(load<uint32_t>(element), text);
    case NRT_DTYPE_UINT64:
      return append_number(load<uint64_t>(element), text);
    default:
      return append_number<int>(load<uint8_t>(element), text);
  }
}

}  // namespace neuron::serve
