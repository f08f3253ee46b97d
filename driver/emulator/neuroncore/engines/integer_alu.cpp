// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/integer_alu.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "driver/isa/rules.h"
#include "hw/isa.h"

namespace neuron::core {
namespace {

// T is uint32_t or uint64_t.
template <class T>
using SignedOf = std::make_signed_t<T>;

template <class T>
T absolute(T value) {
  return static_cast<SignedOf<T>>(value) < 0 ? T{0} - value : value;
}

// Division rounds toward zero and mod has the sign of the dividend; the one quotient that does not
// fit wraps.
template <class T>
T divide(bool is_unsigned, bool remainder, T a, T b) {
  if (is_unsigned) return remainder ? a % b : a / b;
  const auto x = static_cast<SignedOf<T>>(a);
  const auto y = static_cast<SignedOf<T>>(b);
  if (y == -1) return remainder ? T{0} : T{0} - a;
  return static_cast<T>(remainder ? x % y : x / y);
}

// mod of tensors has the sign of the divisor, and is 0 where that is 0, as fp32's NaN becomes 0.
uint32_t floored_mod(bool is_unsigned, uint32_t a, uint32_t b) {
  if (b == 0) return 0;
  const uint32_t r = divide(is_unsigned, true, a, b);
  if (is_unsigned || r == 0 || static_cast<int32_t>(r ^ b) >= 0) return r;
  return r + b;
}

template <class T>
bool less(bool is_unsigned, T a, T b) {
  return is_unsigned ? a < b : static_cast<SignedOf<T>>(a) < static_cast<SignedOf<T>>(b);
}

template <class T>
T compute(unsigned op, bool is_unsigned, T a, T b) {
  constexpr T kWidth = std::numeric_limits<T>::digits;
  switch (op) {
    case NEURON_ALU_ADD:
      return a + b;
    case NEURON_ALU_SUB:
      return a - b;
    case NEURON_ALU_MUL:
      return a * b;
    case NEURON_ALU_MAX:
      return less(is_unsigned, a, b) ? b : a;
    case NEURON_ALU_MIN:
      return less(is_unsigned, b, a) ? b : a;
    case NEURON_ALU_ABS_MAX:
      return is_unsigned ? std::max(a, b) : std::max(absolute(a), absolute(b));
    case NEURON_ALU_ABS_MIN:
      return is_unsigned ? std::min(a, b) : std::min(absolute(a), absolute(b));
    case NEURON_ALU_DIV:
      return divide(is_unsigned, false, a, b);
    case NEURON_ALU_MOD:
      return divide(is_unsigned, true, a, b);
    case NEURON_ALU_EQ:
      return a == b;
    case NEURON_ALU_NE:
      return a != b;
    case NEURON_ALU_GT:
      return less(is_unsigned, b, a);
    case NEURON_ALU_GE:
      return !less(is_unsigned, a, b);
    case NEURON_ALU_LT:
      return less(is_unsigned, a, b);
    case NEURON_ALU_LE:
      return !less(is_unsigned, b, a);
    case NEURON_ALU_AND:
      return a & b;
    case NEURON_ALU_OR:
      return a | b;
    case NEURON_ALU_XOR:
      return a ^ b;
    case NEURON_ALU_NOT:
      return ~a;
    case NEURON_ALU_SHL:
      return b < kWidth ? a << b : 0;
    case NEURON_ALU_SHR_LOGICAL:
      return b < kWidth ? a >> b : 0;
    case NEURON_ALU_SHR_ARITH:
      return static_cast<T>(static_cast<SignedOf<T>>(a) >> std::min<T>(b, kWidth - 1));
    default:
      return 0;
  }
}

}  // namespace

bool integer_alu_covers(unsigned op) { return isa::is_integer_alu(op) || op == NEURON_ALU_MOD; }

void integer_alu(unsigned op, bool is_signed, const std::byte* a, const std::byte* b,
                 std::byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t x;
    uint32_t y;
    std::memcpy(&x, a + 4 * i, 4);
    std::memcpy(&y, b + 4 * i, 4);
    const uint32_t result =
        op == NEURON_ALU_MOD ? floored_mod(!is_signed, x, y) : compute(op, !is_signed, x, y);
    std::memcpy(out + 4 * i, &result, 4);
  }
}

uint64_t integer_alu64(unsigned op, bool is_signed, uint64_t a, uint64_t b) {
  return compute(op, !is_signed, a, b);
}

bool register_alu(unsigned op, bool is_unsigned, uint32_t a, uint32_t b, uint32_t& result) {
  if ((op == NEURON_ALU_DIV || op == NEURON_ALU_MOD) && b == 0) return false;
  result = compute(op, is_unsigned, a, b);
  return true;
}

}  // namespace neuron::core
