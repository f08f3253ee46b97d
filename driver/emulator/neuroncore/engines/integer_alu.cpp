// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/integer_alu.h"

#include <algorithm>
#include <cstring>

#include "hw/isa.h"

namespace neuron::core {
namespace {

uint32_t absolute(uint32_t value) { return static_cast<int32_t>(value) < 0 ? 0u - value : value; }

// Division rounds toward zero and mod has the sign of the dividend; the one quotient that does not
// fit wraps.
uint32_t divide(bool is_unsigned, bool remainder, uint32_t a, uint32_t b) {
  if (is_unsigned) return remainder ? a % b : a / b;
  const auto x = static_cast<int32_t>(a);
  const auto y = static_cast<int32_t>(b);
  if (y == -1) return remainder ? 0 : 0u - a;
  return static_cast<uint32_t>(remainder ? x % y : x / y);
}

bool less(bool is_unsigned, uint32_t a, uint32_t b) {
  return is_unsigned ? a < b : static_cast<int32_t>(a) < static_cast<int32_t>(b);
}

uint32_t compute(unsigned op, bool is_unsigned, uint32_t a, uint32_t b) {
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
      return b < 32 ? a << b : 0;
    case NEURON_ALU_SHR_LOGICAL:
      return b < 32 ? a >> b : 0;
    case NEURON_ALU_SHR_ARITH:
      return static_cast<uint32_t>(static_cast<int32_t>(a) >> std::min(b, 31u));
    default:
      return 0;
  }
}

}  // namespace

bool integer_alu_covers(unsigned op) {
  switch (op) {
    case NEURON_ALU_ADD:
    case NEURON_ALU_SUB:
    case NEURON_ALU_MUL:
    case NEURON_ALU_MAX:
    case NEURON_ALU_MIN:
    case NEURON_ALU_ABS_MAX:
    case NEURON_ALU_ABS_MIN:
    case NEURON_ALU_EQ:
    case NEURON_ALU_NE:
    case NEURON_ALU_GT:
    case NEURON_ALU_GE:
    case NEURON_ALU_LT:
    case NEURON_ALU_LE:
      return true;
    default:
      return false;
  }
}

void integer_alu(unsigned op, bool is_signed, const std::byte* a, const std::byte* b,
                 std::byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t x;
    uint32_t y;
    std::memcpy(&x, a + 4 * i, 4);
    std::memcpy(&y, b + 4 * i, 4);
    const uint32_t result = compute(op, !is_signed, x, y);
    std::memcpy(out + 4 * i, &result, 4);
  }
}

bool register_alu(unsigned op, bool is_unsigned, uint32_t a, uint32_t b, uint32_t& result) {
  if ((op == NEURON_ALU_DIV || op == NEURON_ALU_MOD) && b == 0) return false;
  result = compute(op, is_unsigned, a, b);
  return true;
}

}  // namespace neuron::core
