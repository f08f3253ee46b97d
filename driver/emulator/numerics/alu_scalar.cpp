// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/alu_scalar.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hw/isa.h"

namespace neuron::numerics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kSign = 0x80000000u;

float canonical_nan() { return std::bit_cast<float>(0x7FC00000u); }

float with_sign(float size, bool negative) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | (negative ? kSign : 0));
}

// log2 of a positive finite number, as a series in (m - 1) / (m + 1) with |.| < 0.172.
double log2_of(double x) {
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double t = (m - 1.0) / (m + 1.0);
  const double t2 = t * t;
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  constexpr double kTwoOverLn2 = 2.8853900817779268;
  return exponent + kTwoOverLn2 * (t * sum);
}

// 2^z for |z| < 1000, as a Taylor series of degree 14 on half a binade to either side.
double exp2_of(double z) {
  const double shift = 0x1.8p52;
  const double whole = (z + shift) - shift;  // nearest integer
  const double f = (z - whole) * 0.69314718055994531;
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = sum * f / k + 1.0;
  const int64_t n = static_cast<int64_t>(whole);
  return sum * std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// 0: not an integer, 1: odd, 2: even. Every float from 2^24 on is an even integer.
int integer_kind(float y) {
  const float size = y < 0 ? -y : y;
  if (size >= 0x1p24f) return 2;
  const int32_t whole = static_cast<int32_t>(size);
  if (static_cast<float>(whole) != size) return 0;
  return whole & 1 ? 1 : 2;
}

}  // namespace

float power(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return canonical_nan();
  const bool negative_base = std::bit_cast<uint32_t>(x) & kSign;
  const float size = negative_base ? -x : x;
  if (y == kInfinity || y == -kInfinity) {
    if (size == 1.0f) return 1.0f;
    return (size > 1.0f) == (y > 0) ? kInfinity : 0.0f;
  }
  const int kind = integer_kind(y);
  const bool negative = negative_base && kind == 1;
  if (size == 0.0f) return with_sign(y < 0 ? kInfinity : 0.0f, negative);
  if (size == kInfinity) return with_sign(y < 0 ? 0.0f : kInfinity, negative);
  if (negative_base && kind == 0) return canonical_nan();
  double z = static_cast<double>(y) * log2_of(size);
  // Beyond these the result is certainly infinite or zero.
  z = z > 200.0 ? 200.0 : z < -200.0 ? -200.0 : z;
  return with_sign(static_cast<float>(exp2_of(z)), negative);
}

float remainder_towards_zero(float x, float y) {
  const float sx = x < 0 ? -x : x;
  const float sy = y < 0 ? -y : y;
  if (x != x || y != y || sx == kInfinity || sy == 0.0f) return canonical_nan();
  if (sy == kInfinity || sx < sy) return x;
  // Both as integer multiples of 2^-149, reduced one binade at a time.
  const auto split = [](float v, uint64_t* mantissa) {
    const uint32_t bits = std::bit_cast<uint32_t>(v) & ~kSign;
    const int exponent = static_cast<int>(bits >> 23);
    *mantissa = exponent == 0 ? bits : (bits & 0x007FFFFFu) | 0x00800000u;
    return exponent == 0 ? 0 : exponent - 1;
  };
  uint64_t mx, my;
  int ex = split(sx, &mx);
  const int ey = split(sy, &my);
  mx %= my;
  for (; ex > ey; --ex) mx = (mx << 1) % my;
  // mx < my <= 2^24 in units of 2^(ey - 149): exact as a double, and the result as a float.
  const double unit = std::bit_cast<double>(static_cast<uint64_t>(ey - 149 + 1023) << 52);
  const float r = static_cast<float>(static_cast<double>(mx) * unit);
  return with_sign(r, std::bit_cast<uint32_t>(x) & kSign);
}

float remainder_towards_minus_infinity(float x, float y) {
  const float r = remainder_towards_zero(x, y);
  if (r != r) return r;
  if (r == 0.0f) return with_sign(0.0f, std::bit_cast<uint32_t>(y) & kSign);
  return (r < 0) == (y < 0) ? r : r + y;
}

void alu_one_by_one(unsigned op, const float* a, ptrdiff_t a_step, const float* b, ptrdiff_t b_step,
                    float* out, size_t n) {
  for (size_t i = 0; i < n; ++i, a += a_step, b += b_step) {
    switch (op) {
      case NEURON_ALU_BYPASS:
        std::memmove(out + i, a, sizeof(float));  // as bits: a NaN keeps its payload
        break;
      case NEURON_ALU_POW:
        out[i] = power(*a, *b);
        break;
      case NEURON_ALU_MOD:
        out[i] = remainder_towards_minus_infinity(*a, *b);
        break;
      default:
        out[i] = canonical_nan();
    }
  }
}

}  // namespace neuron::numerics
