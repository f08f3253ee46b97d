// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/operand_rules.h"

#include <algorithm>

namespace neuron::isa {
namespace {

constexpr const char* kElementBytes =
    "engines compute on elements of 1, 2 or 4 bytes; only Pool computes on i64 and u64, from "
    "generation 3 on";
constexpr const char* kScalarBytes =
    "a scalar has 1, 2 or 4 bytes; it is i64 or u64 only where operands of Pool are, from "
    "generation 3 on";

uint32_t partition_bytes(unsigned space, const Limits& limits) {
  return space == NEURON_SPACE_PSUM ? limits.psum_partition_bytes : limits.sbuf_partition_bytes;
}

// R1: operands of many partitions must start where their lanes start.
Violation check_start(unsigned start, unsigned parts, unsigned offset, unsigned which) {
  const auto bad = [&](uint32_t value, const char* what) {
    return violation(NEURON_FAULT_OPERAND_PARTITION, offset, value, what, 1, which);
  };
  if (parts < 1 || parts > NEURON_PARTITIONS) {
    return bad(parts, "an operand has 1 to 128 partitions");
  }
  if (parts > 64 && start != 0) return bad(start, "more than 64 partitions must start at 0");
  if (parts > 32 && start != 0 && start != 64) {
    return bad(start, "33 to 64 partitions must start at 0 or 64");
  }
  if (start % 32 != 0 || start >= NEURON_PARTITIONS) {
    return bad(start, "up to 32 partitions must start at 0, 32, 64 or 96");
  }
  return {};
}

}  // namespace

Extent extent(const Operand& operand, unsigned element) {
  Extent e{operand.base, operand.base};
  for (unsigned d = 0; d < operand.ndim; ++d) {
    const int64_t reach = (int64_t{operand.size[d]} - 1) * operand.step[d] * element;
    (reach < 0 ? e.first : e.last) += reach;
  }
  e.last += element - 1;
  return e;
}

Violation check_tile(const Operand& operand, unsigned which, unsigned engine,
                     const Limits& limits) {
  const unsigned offset = slot_offset(which);
  if (Violation v = check_start(operand.start, operand.parts, offset + 2, which)) return v;
  const unsigned element = dtype_bytes(operand.dtype);
  const bool native = engine == NEURON_ENGINE_POOL && limits.native_int64;
  if (element == 0 || element > (native ? 8 : 4)) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, operand.dtype, kElementBytes, 3,
                     which);
  }
  if (operand.base % element != 0) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset, operand.base,
                     "the base must be a multiple of the element size", 2, which);
  }
  if (operand.ndim < 1 || operand.ndim > 4) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, offset + 5, operand.ndim,
                     "the number of free dimensions must be 1 to 4", 2, which);
  }
  for (unsigned d = 0; d < operand.ndim; ++d) {
    if (operand.size[d] == 0) {
      return violation(NEURON_FAULT_OPERAND_SHAPE, offset + 8 + 4 * d, 0,
                       "the size of a dimension must be 1 to 65535", 2, which);
    }
  }
  if (operand.elements() > kMaxStream) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, offset + 8,
                     static_cast<uint32_t>(std::min<uint64_t>(operand.elements(), UINT32_MAX)),
                     "an operand has at most 1048576 elements per partition", 2, which);
  }
  // Where the elements of an indirect operand lie, its index says when the instruction executes.
  const Extent e = operand.indirect ? Extent{operand.base, operand.base + element - 1}
                                    : extent(operand, element);
  if (e.first < 0 || e.last >= partition_bytes(operand.space, limits)) {
    return violation(NEURON_FAULT_OPERAND_RANGE, offset,
                     static_cast<uint32_t>(e.first < 0 ? e.first : e.last),
                     operand.space == NEURON_SPACE_PSUM
                         ? "every element must lie in the 16384 bytes of a PSUM partition"
                         : "every element must lie in the bytes of an SBUF partition (196608 in "
                           "generation 2, 229376 in 3, 262144 in 4)",
                     2, which);
  }
  if (engine == NEURON_ENGINE_POOL && operand.space == NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, offset + 5, operand.space,
                     "Pool has no port to PSUM; operands must be in SBUF", 5, which);
  }
  return {};
}

Violation check_scalar_tile(const Scalar& scalar, unsigned which, unsigned parts, unsigned engine,
                            bool bits, const Limits& limits) {
  const unsigned offset = which == 0 ? NEURON_INST_SCALAR0 : NEURON_INST_SCALAR1;
  if (!scalar.present()) return {};
  const unsigned element = dtype_bytes(scalar.dtype);
  if (bits != is_integer_dtype(scalar.dtype) && (bits || scalar.kind == NEURON_SCALAR_IMMEDIATE)) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype,
                     bits ? "a bit operation takes an integer scalar"
                          : "an immediate of an arithmetic operation is a 32-bit float",
                     3);
  }
  if (scalar.kind == NEURON_SCALAR_IMMEDIATE && !bits && scalar.dtype != NEURON_DTYPE_F32) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype,
                     "an immediate of an arithmetic operation is a 32-bit float", 3);
  }
  if (element == 0 || element > 4) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype, kScalarBytes, 3);
  }
  if (scalar.kind != NEURON_SCALAR_POINTER) return {};
  return check_pointer(scalar, which, parts, 1, engine, limits);
}

Violation check_pointer(const Scalar& scalar, unsigned which, unsigned parts, unsigned count,
                        unsigned engine, const Limits& limits, unsigned widest) {
  const unsigned offset = which == 0 ? NEURON_INST_SCALAR0 : NEURON_INST_SCALAR1;
  if (scalar.kind != NEURON_SCALAR_POINTER) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, offset + 4, scalar.kind,
                     "this scalar must be a pointer (2) to a row of values per partition");
  }
  const unsigned element = dtype_bytes(scalar.dtype);
  if (element == 0 || element > widest) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype, kScalarBytes, 3);
  }
  if (Violation v = check_start(scalar.start, parts, offset + 5, 0)) return v;
  if (scalar.value % element != 0) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset, scalar.value,
                     "a pointer must be a multiple of its element size", 2);
  }
  if (uint64_t{scalar.value} + element * count > partition_bytes(scalar.space, limits)) {
    return violation(NEURON_FAULT_OPERAND_RANGE, offset, scalar.value,
                     count == 1 ? "a pointer must lie in its partition"
                                : "the 8 values behind a pointer must lie in its partition",
                     2);
  }
  if (engine == NEURON_ENGINE_POOL && scalar.space == NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, offset + 5, scalar.space,
                     "Pool has no port to PSUM; a scalar pointer must be to SBUF", 5);
  }
  return {};
}

// R1: same partitions and same number of elements for all operands of a vector instruction.
Violation check_same_shape(const Instruction& i, bool elements) {
  const Operand* sources[] = {&i.src0, &i.src1};
  for (unsigned s = 0; s < 2; ++s) {
    if (!sources[s]->present()) continue;
    if (sources[s]->parts != i.dst.parts) {
      return violation(NEURON_FAULT_OPERAND_SHAPE, slot_offset(s + 1) + 3, sources[s]->parts,
                       "all operands must have as many partitions as the destination", 1, s + 1);
    }
    if (elements && sources[s]->elements() != i.dst.elements()) {
      return violation(NEURON_FAULT_OPERAND_SHAPE, slot_offset(s + 1) + 8,
                       static_cast<uint32_t>(sources[s]->elements()),
                       "all operands must have as many elements per partition as the destination",
                       1, s + 1);
    }
  }
  return {};
}

Violation check_scales(const Operand& matrix, uint64_t elements, const Operand& scales) {
  if (scales.dtype != NEURON_DTYPE_U8 && scales.dtype != NEURON_DTYPE_E8M0) {
    return wrong_dtype(2, scales.dtype, "block scales are u8 or e8m0");
  }
  const unsigned wanted =
      matrix.parts > 32 ? matrix.parts : matrix.parts / unsigned{NEURON_MX_PARTITIONS};
  if (scales.parts != wanted) {
    return wrong_shape(2, kPartsByte, scales.parts,
                       "block scales have as many partitions as their matrix, or an eighth of up "
                       "to 32");
  }
  if (scales.elements() != elements) {
    return wrong_shape(2, kSizeByte, scales.elements(),
                       "there is one block scale for each x4 element of 8 partitions");
  }
  return {};
}

// R3: bit operations work on raw integers of one width.
Violation check_bit_types(const Instruction& i) {
  const Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  for (unsigned o = 0; o < 3; ++o) {
    if (!operands[o]->present()) continue;
    if (!is_integer_dtype(operands[o]->dtype)) {
      return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(o) + 4, operands[o]->dtype,
                       "bit operations work on integer types only", 3, o);
    }
    if (dtype_bytes(operands[o]->dtype) != dtype_bytes(i.dst.dtype)) {
      return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(o) + 4, operands[o]->dtype,
                       "bit operations work on operands of one width", 3, o);
    }
  }
  return {};
}

}  // namespace neuron::isa
