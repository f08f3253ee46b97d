// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <type_traits>

#include "driver/emulator/numerics/alu.h"

namespace neuron::numerics {
namespace {

template <typename T>
T shifted(unsigned op, T a, T count) {
  constexpr T kWidth = sizeof(T) * 8;
  using Signed = std::make_signed_t<T>;
  const bool negative = static_cast<Signed>(a) < 0;
  if (count >= kWidth) return op == NEURON_ALU_SHR_ARITH && negative ? static_cast<T>(~T{0}) : T{0};
  switch (op) {
    case NEURON_ALU_SHL:
      return static_cast<T>(static_cast<uint32_t>(a) << count);
    case NEURON_ALU_SHR_LOGICAL:
      return static_cast<T>(a >> count);
    default:
      return static_cast<T>(static_cast<Signed>(a) >> count);
  }
}

template <typename T>
T combined(unsigned op, T a, T b) {
  switch (op) {
    case NEURON_ALU_AND:
      return a & b;
    case NEURON_ALU_OR:
      return a | b;
    case NEURON_ALU_XOR:
      return a ^ b;
    case NEURON_ALU_NOT:
      return static_cast<T>(~a);
    default:
      return shifted(op, a, b);
  }
}

// Steps are 0 or 1 element; with step 0, every element meets the same scalar.
template <typename T>
void combine(unsigned op, const std::byte* a, size_t a_step, const std::byte* b, size_t b_step,
             std::byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    T x, y;
    std::memcpy(&x, a + i * a_step * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * b_step * sizeof(T), sizeof(T));
    const T r = combined(op, x, y);
    std::memcpy(out + i * sizeof(T), &r, sizeof(T));
  }
}

void combine_any(unsigned op, const std::byte* a, size_t a_step, const std::byte* b, size_t b_step,
                 std::byte* out, unsigned element_bytes, size_t n) {
  if (!alu_is_bitwise(op)) return;
  if (element_bytes == 1) combine<uint8_t>(op, a, a_step, b, b_step, out, n);
  if (element_bytes == 2) combine<uint16_t>(op, a, a_step, b, b_step, out, n);
  if (element_bytes == 4) combine<uint32_t>(op, a, a_step, b, b_step, out, n);
}

}  // namespace

void alu_bits(unsigned op, const std::byte* a, const std::byte* b, std::byte* out,
              unsigned element_bytes, size_t n) {
  combine_any(op, a, 1, b, 1, out, element_bytes, n);
}

void alu_bits_scalar(unsigned op, const std::byte* a, uint32_t s, bool reverse, std::byte* out,
                     unsigned element_bytes, size_t n) {
  std::byte scalar[sizeof(s)];
  std::memcpy(scalar, &s, sizeof(s));  // little endian: its first bytes are the narrow scalar
  if (reverse) {
    combine_any(op, scalar, 0, a, 1, out, element_bytes, n);
  } else {
    combine_any(op, a, 1, scalar, 0, out, element_bytes, n);
  }
}

uint32_t reduce_bits(unsigned op, const std::byte* in, unsigned element_bytes, size_t n,
                     uint32_t acc) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t x = 0;
    if (element_bytes > sizeof(x)) break;
    std::memcpy(&x, in + i * element_bytes, element_bytes);
    if (op == NEURON_ALU_AND || op == NEURON_ALU_OR || op == NEURON_ALU_XOR) {
      acc = combined(op, acc, x);
    }
  }
  return acc;
}

}  // namespace neuron::numerics
