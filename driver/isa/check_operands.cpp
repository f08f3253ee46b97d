// SPDX-License-Identifier: Apache-2.0
// Operand rules of the compute instructions (R1-R5, R8) on the decoded form, after registers were
// substituted: a bad register value is found like a bad constant.
#include <algorithm>

#include "driver/isa/instruction.h"
#include "driver/isa/rules.h"

namespace neuron::isa {
namespace {

constexpr unsigned slot_offset(unsigned which) {
  return NEURON_INST_DST + which * NEURON_OPERAND_BYTES;
}

uint32_t partition_bytes(unsigned space, const Limits& limits) {
  return space == NEURON_SPACE_PSUM ? limits.psum_partition_bytes : limits.sbuf_partition_bytes;
}

// R1: many partitions must start where their lanes start.
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

struct Extent {
  int64_t first = 0;  // lowest byte offset in the partition
  int64_t last = 0;   // highest byte, inclusive
};

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
  if (element == 0 || element > 4) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, operand.dtype,
                     "engines compute on elements of 1, 2 or 4 bytes", 3, which);
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
  const Extent e = extent(operand, element);
  if (e.first < 0 || e.last >= partition_bytes(operand.space, limits)) {
    return violation(NEURON_FAULT_OPERAND_RANGE, offset,
                     static_cast<uint32_t>(e.first < 0 ? e.first : e.last),
                     operand.space == NEURON_SPACE_PSUM
                         ? "every element must lie in the 16384 bytes of a PSUM partition"
                         : "every element must lie in the bytes of an SBUF partition (196608 in "
                           "generation 2)",
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
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype,
                     "engines compute on elements of 1, 2 or 4 bytes", 3);
  }
  if (scalar.kind != NEURON_SCALAR_POINTER) return {};
  if (Violation v = check_start(scalar.start, parts, offset + 5, 0)) return v;
  if (scalar.value % element != 0) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset, scalar.value,
                     "a pointer must be a multiple of its element size", 2);
  }
  if (uint64_t{scalar.value} + element > partition_bytes(scalar.space, limits)) {
    return violation(NEURON_FAULT_OPERAND_RANGE, offset, scalar.value,
                     "a pointer must lie in its partition", 2);
  }
  if (engine == NEURON_ENGINE_POOL && scalar.space == NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, offset + 5, scalar.space,
                     "Pool has no port to PSUM; a scalar pointer must be to SBUF", 5);
  }
  return {};
}

bool is_pe_dtype(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_BF16:
    case NEURON_DTYPE_F16:
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
    case NEURON_DTYPE_F8E3:
    case NEURON_DTYPE_F8E4:
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_TF32:
      return true;
    default:
      return false;
  }
}

Violation shape(unsigned offset, uint64_t value, const char* what, unsigned which) {
  return violation(NEURON_FAULT_OPERAND_SHAPE, offset, static_cast<uint32_t>(value), what, 0,
                   which);
}

Violation check_pe(const Instruction& i) {
  if (i.src0.space != NEURON_SPACE_SBUF) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(1) + 5, i.src0.space,
                     "PE reads SBUF only", 5, 1);
  }
  const bool transpose = i.opcode == NEURON_OP_TRANSPOSE;
  if (transpose ? dtype_bytes(i.src0.dtype) < 2 : !is_pe_dtype(i.src0.dtype)) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(1) + 4, i.src0.dtype,
                     transpose ? "transpose moves elements of 2 or 4 bytes"
                               : "PE multiplies f32, f32r, tf32, bf16, f16 and f8 types",
                     3, 1);
  }
  const uint64_t moving = i.src0.elements();
  if (i.opcode == NEURON_OP_LDWEIGHTS) {
    if (moving > NEURON_PE_MAX_M) {
      return shape(slot_offset(1) + 8, moving, "the stationary matrix has at most 128 columns", 1);
    }
    return {};
  }
  if (i.dst.space != NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(0) + 5, i.dst.space,
                     "PE writes PSUM only", 5, 0);
  }
  const unsigned element = dtype_bytes(i.dst.dtype);
  if (transpose) {
    if (i.dst.dtype != i.src0.dtype) {
      return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(0) + 4, i.dst.dtype,
                       "transpose keeps the data type of its source", 3, 0);
    }
    if (i.dst.parts != moving || i.dst.elements() != i.src0.parts) {
      return shape(slot_offset(0) + 2, i.dst.parts,
                   "transpose of [P, F] writes F partitions of P elements", 0);
    }
  } else {
    if (i.dst.dtype != NEURON_DTYPE_F32) {
      return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(0) + 4, i.dst.dtype,
                       "matmul writes f32 before generation 4", 3, 0);
    }
    if (moving > NEURON_PE_MAX_N) {
      return shape(slot_offset(1) + 8, moving, "the moving matrix has at most 512 columns", 1);
    }
    if (i.dst.elements() != moving) {
      return shape(slot_offset(0) + 8, i.dst.elements(),
                   "the destination must have as many elements per partition as the moving matrix",
                   0);
    }
  }
  const Extent e = extent(i.dst, element);
  if (e.first / NEURON_PSUM_BANK_BYTES != e.last / NEURON_PSUM_BANK_BYTES) {
    return violation(NEURON_FAULT_OPERAND_RANGE, slot_offset(0), static_cast<uint32_t>(e.last),
                     "the destination of PE must lie in one PSUM bank of 2048 bytes", 2, 0);
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

Violation check_reduce(const Instruction& i) {
  if (Violation v = check_same_shape(i, false)) return v;
  if (is_bit_alu(i.vector.reduce)) {
    if (Violation v = check_bit_types(i)) return v;
  }
  if (i.vector.axes > i.src0.ndim) {
    return shape(NEURON_INST_OP + 3, i.vector.axes,
                 "no more dimensions can be reduced than the source has", 1);
  }
  uint64_t kept = 1;
  for (unsigned d = i.vector.axes; d < i.src0.ndim; ++d) kept *= i.src0.size[d];
  if (i.dst.elements() != kept) {
    return shape(slot_offset(0) + 8, i.dst.elements(),
                 "the destination must have one element for each position that is not reduced", 0);
  }
  return {};
}

Violation check_vector(const Instruction& i, unsigned engine, const Limits& limits) {
  if (i.opcode == NEURON_OP_TENSOR_REDUCE) return check_reduce(i);
  if (i.opcode == NEURON_OP_READ_ACC) {
    if (i.dst.elements() != 1) {
      return violation(NEURON_FAULT_OPERAND_SHAPE, slot_offset(0) + 8,
                       static_cast<uint32_t>(i.dst.elements()),
                       "an accumulator is read into one element per partition", 8, 0);
    }
    return {};
  }
  if (Violation v = check_same_shape(i, true)) return v;
  if (i.src1.present() && i.src0.space == NEURON_SPACE_PSUM && i.src1.space == NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(2) + 5, i.src1.space,
                     "at most one input can be in PSUM", 5, 2);
  }
  bool bits = false;
  if (i.opcode == NEURON_OP_TENSOR_TENSOR || i.opcode == NEURON_OP_TENSOR_SCALAR) {
    bits = is_bit_alu(i.vector.op0) || is_bit_alu(i.vector.op1);
  }
  if (bits) {
    if (Violation v = check_bit_types(i)) return v;
  }
  if (Violation v = check_scalar_tile(i.scalar0, 0, i.dst.parts, engine, bits, limits)) return v;
  return check_scalar_tile(i.scalar1, 1, i.dst.parts, engine, bits, limits);
}

Violation check_activate(const Instruction& i, const Limits& limits) {
  if (Violation v = check_same_shape(i, true)) return v;
  constexpr unsigned engine = NEURON_ENGINE_ACTIVATION;
  if (Violation v = check_scalar_tile(i.scalar0, 0, i.dst.parts, engine, false, limits)) return v;
  if (Violation v = check_scalar_tile(i.scalar1, 1, i.dst.parts, engine, false, limits)) return v;
  if (i.scalar1.present() && i.scalar1.dtype == NEURON_DTYPE_TF32) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, NEURON_INST_SCALAR1 + 4, i.scalar1.dtype,
                     "the bias of activate cannot be tf32", 3);
  }
  return {};
}

Violation check_iota(const Instruction& i) {
  uint64_t count = 1;
  for (unsigned d = 0; d < 4; ++d) {
    if (i.pattern.size[d] != 0) count *= i.pattern.size[d];
  }
  if (count != i.dst.elements()) {
    return shape(NEURON_INST_SRC1 + 16, count,
                 "the pattern must have as many elements as the destination", 2);
  }
  return {};
}

Violation check_alignment(uint64_t address, unsigned offset) {
  if (address % 4 == 0) return {};
  return violation(NEURON_FAULT_OPERAND_DTYPE, offset, static_cast<uint32_t>(address),
                   "a device address must be a multiple of 4");
}

}  // namespace

Violation check_operands(const Instruction& i, unsigned engine, const Limits& limits) {
  switch (i.opcode) {
    case NEURON_OP_WRITE:
    case NEURON_OP_LOAD:
    case NEURON_OP_STORE:
      if (Violation v = check_alignment(i.address.addr, NEURON_ADDRESS_ADDR)) return v;
      return check_alignment(static_cast<uint32_t>(i.address.stride), NEURON_ADDRESS_STRIDE);
    case NEURON_OP_DMA_TRIGGER:
      if (Violation v = check_alignment(i.trigger.m2s, NEURON_DMA_TRIGGER_M2S)) return v;
      if (Violation v = check_alignment(i.trigger.s2m, NEURON_DMA_TRIGGER_S2M)) return v;
      return check_alignment(i.trigger.stride, NEURON_DMA_TRIGGER_STRIDE);
    default:
      break;
  }
  const unsigned group = i.group();
  if (group < 2 || group > 5) return {};
  const Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  for (unsigned o = 0; o < 3; ++o) {
    if (!operands[o]->present()) continue;
    if (Violation v = check_tile(*operands[o], o, engine, limits)) return v;
  }
  switch (group) {
    case 2:
      return check_pe(i);
    case 3:
      return check_vector(i, engine, limits);
    case 4:
      return check_activate(i, limits);
    default:
      return check_iota(i);
  }
}

}  // namespace neuron::isa
