// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/type.h"

#include <cmath>
#include <limits>

#include "driver/base/small_float.h"

namespace neuron::graph {

const char* type_name(Type type) {
  constexpr const char* kNames[] = {"f32", "f64", "f16", "bf16", "i8",  "i16", "i32",
                                    "i64", "u8",  "u16", "u32",  "u64", "bool"};
  return kNames[static_cast<size_t>(type)];
}

size_t type_bytes(Type type) {
  constexpr size_t kBytes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return kBytes[static_cast<size_t>(type)];
}

bool is_real(Type type) { return type <= Type::kBf16; }

bool is_unsigned(Type type) { return type >= Type::kU8; }

double rounded(Type type, double value) {
  switch (type) {
    case Type::kF32:
      return static_cast<float>(value);
    case Type::kF16:
      return base::widen(base::kFp16, base::narrow(base::kFp16, static_cast<float>(value)));
    case Type::kBf16:
      return base::widen(base::kBf16, base::narrow(base::kBf16, static_cast<float>(value)));
    default:
      return is_real(type) ? value : static_cast<double>(truncated(type, value));
  }
}

int64_t wrapped(Type type, int64_t value) {
  switch (type) {
    case Type::kI8:
      return static_cast<int8_t>(value);
    case Type::kI16:
      return static_cast<int16_t>(value);
    case Type::kI32:
      return static_cast<int32_t>(value);
    case Type::kU8:
      return static_cast<uint8_t>(value);
    case Type::kU16:
      return static_cast<uint16_t>(value);
    case Type::kU32:
      return static_cast<uint32_t>(value);
    case Type::kBool:
      return value != 0;
    default:
      return value;
  }
}

int64_t truncated(Type type, double value) {
  if (std::isnan(value)) return type == Type::kBool ? 1 : 0;
  if (type == Type::kBool) return value != 0;
  if (type == Type::kU64) {
    if (value <= 0) return 0;
    if (value >= std::ldexp(1.0, 64)) return -1;
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  const int bits = static_cast<int>(8 * type_bytes(type));
  const double end = std::ldexp(1.0, is_unsigned(type) ? bits : bits - 1);
  const double begin = is_unsigned(type) ? 0 : -end;
  if (value <= begin) return static_cast<int64_t>(begin);
  if (value >= end) {
    return bits == 64 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(end) - 1;
  }
  return static_cast<int64_t>(value);
}

}  // namespace neuron::graph
