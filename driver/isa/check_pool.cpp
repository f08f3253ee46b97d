// SPDX-License-Identifier: Apache-2.0
// Operand rules of group 5: the instructions of the GpSimd engine.
#include <algorithm>

#include "driver/isa/operand_rules.h"

namespace neuron::isa {
namespace {

constexpr unsigned kEngine = NEURON_ENGINE_POOL;
constexpr unsigned kCorePartitions = 16;   // of one GpSimd core
constexpr unsigned kMaxIndices = 4096;     // of one core in local_gather
constexpr uint64_t kMaxExchanged = 65536;  // of SBUF in one instruction (usability limits)
constexpr uint32_t kMinSnake = 8, kMaxSnake = 65535;

Violation check_parts(const Instruction& i) {
  if (i.dst.parts % kCorePartitions == 0) return {};
  return wrong_shape(0, kPartsByte, i.dst.parts,
                     "the instruction works on groups of 16 partitions: their number must be a "
                     "multiple of 16");
}

Violation check_pattern_size(const Instruction& i) {
  uint64_t count = 1;
  for (unsigned d = 0; d < 4; ++d) {
    if (i.pattern.size[d] != 0) count *= i.pattern.size[d];
  }
  if (count != i.dst.elements()) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, NEURON_INST_SRC1 + 16,
                     static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX)),
                     "the pattern must have as many elements as the destination", 0, 2);
  }
  return {};
}

// The offset of a pattern: an integer, or a float that is rounded to one. `int64`: the sum has 64
// bits.
Violation check_offset(const Scalar& scalar, unsigned which, unsigned parts, const Limits& limits,
                       bool int64 = false) {
  if (!scalar.present()) return {};
  if (int64 && is_int64_dtype(scalar.dtype)) {
    return check_int64_scalar(scalar, which, parts, limits);
  }
  const unsigned at = which == 0 ? NEURON_INST_SCALAR0 : NEURON_INST_SCALAR1;
  if (scalar.dtype != NEURON_DTYPE_F32 && scalar.dtype != NEURON_DTYPE_I32 &&
      scalar.dtype != NEURON_DTYPE_U32) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, at + 4, scalar.dtype,
                     "the offset of a pattern is i32, u32 or f32", 3);
  }
  if (scalar.kind != NEURON_SCALAR_POINTER) return {};
  return check_pointer(scalar, which, parts, 1, kEngine, limits);
}

Violation check_same_type(const Instruction& i, const char* what) {
  if (i.dst.dtype == i.src0.dtype) return {};
  return wrong_dtype(0, i.dst.dtype, what);
}

Violation check_partition_reduce(const Instruction& i) {
  if (i.dst.parts != 1) {
    return wrong_shape(0, kPartsByte, i.dst.parts, "the reduced partitions become one");
  }
  if (i.dst.elements() != i.src0.elements()) {
    return wrong_shape(0, kSizeByte, i.dst.elements(),
                       "the destination must have as many elements as the source per partition");
  }
  return is_bit_alu(i.vector.op0) ? check_bit_types(i) : Violation{};
}

Violation check_local_gather(const Instruction& i) {
  if (Violation v = check_same_shape(i, false)) return v;
  if (Violation v = check_parts(i)) return v;
  if (Violation v = check_same_type(i, "local_gather keeps the data type of its source")) return v;
  if (i.src1.dtype != NEURON_DTYPE_U16) {
    return wrong_dtype(2, i.src1.dtype, "the indices of local_gather are u16");
  }
  const uint64_t indices = i.src1.elements() * kCorePartitions;
  if (indices > kMaxIndices) {
    return wrong_shape(2, kSizeByte, i.src1.elements(),
                       "local_gather takes at most 256 indices per partition, 4096 of 16");
  }
  if (i.pool.count > indices) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, NEURON_INST_OP + 2, i.pool.count,
                     "no more indices can be valid than the 16 partitions of a group hold");
  }
  if (i.dst.elements() != uint64_t{i.pool.count} << i.pool.elements) {
    return wrong_shape(0, kSizeByte, i.dst.elements(),
                       "the destination must have valid indices x elements per index");
  }
  if (i.src0.elements() < 1u << i.pool.elements) {
    return wrong_shape(1, kSizeByte, i.src0.elements(),
                       "the source must have at least the elements of one index");
  }
  return {};
}

Violation check_n_gather(const Instruction& i) {
  if (Violation v = check_same_shape(i, false)) return v;
  if (Violation v = check_same_type(i, "n_gather keeps the data type of its source")) return v;
  if (i.src1.dtype != NEURON_DTYPE_U32) {
    return wrong_dtype(2, i.src1.dtype, "the indices of n_gather are u32");
  }
  if (i.src1.elements() != i.dst.elements()) {
    return wrong_shape(2, kSizeByte, i.src1.elements(),
                       "n_gather needs one index for each element of the destination");
  }
  return {};
}

Violation check_bounds(const Instruction& i) {
  const Operand* operands[] = {&i.dst, &i.src0};
  for (unsigned o = 0; o < 2; ++o) {
    if (operands[o]->dtype != NEURON_DTYPE_F32 && operands[o]->dtype != NEURON_DTYPE_I32) {
      return wrong_dtype(o, operands[o]->dtype, "sequence_bounds works on f32 and i32");
    }
    if (operands[o]->parts != 1) {
      return wrong_shape(o, kPartsByte, operands[o]->parts,
                         "sequence_bounds works on one partition");
    }
  }
  if (i.dst.elements() != 2 * i.src0.elements()) {
    return wrong_shape(0, kSizeByte, i.dst.elements(),
                       "the destination must have a start and an end for each element");
  }
  return {};
}

// The n elements of a group of 16 partitions, and its K results, lie in ceil(n / 16) columns.
Violation check_topk(const Instruction& i) {
  const uint32_t n = i.vector.imm;
  if (Violation v = check_same_shape(i, false)) return v;
  if (Violation v = check_parts(i)) return v;
  const Operand* values[] = {&i.dst, &i.src0};
  for (unsigned o = 0; o < 2; ++o) {
    if (values[o]->dtype != NEURON_DTYPE_BF16) {
      return wrong_dtype(o, values[o]->dtype, "topk works on bf16");
    }
  }
  if (i.src1.dtype != NEURON_DTYPE_U16 && i.src1.dtype != NEURON_DTYPE_U32) {
    return wrong_dtype(2, i.src1.dtype, "the indices that topk writes are u16 or u32");
  }
  if (n < kMinSnake || n > kMaxSnake) {  // n may come from a register
    return violation(NEURON_FAULT_OPERAND_SHAPE, NEURON_INST_OP + 4, n,
                     "topk looks through 8 to 65535 elements of 16 partitions");
  }
  if (i.pool.count > n) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, NEURON_INST_OP + 2, i.pool.count,
                     "topk cannot find more elements than there are");
  }
  const auto columns = [](uint32_t count) {
    return (count + kCorePartitions - 1) / kCorePartitions;
  };
  if (i.src0.elements() != columns(n)) {
    return wrong_shape(1, kSizeByte, i.src0.elements(),
                       "the source must have a sixteenth of the n elements, rounded up");
  }
  const Operand* results[] = {&i.dst, &i.src1};
  for (unsigned r = 0; r < 2; ++r) {
    if (results[r]->elements() != columns(i.pool.count)) {
      return wrong_shape(r * 2, kSizeByte, results[r]->elements(),
                         "values and indices must have a sixteenth of the K elements, rounded up");
    }
  }
  return {};
}

Violation check_nonzero(const Instruction& i, const Limits& limits) {
  if (Violation v = check_same_shape(i, false)) return v;
  if (i.src0.dtype != NEURON_DTYPE_F32 && i.src0.dtype != NEURON_DTYPE_I32) {
    return wrong_dtype(1, i.src0.dtype, "nonzero_with_count looks through f32 and i32");
  }
  if (i.dst.dtype != NEURON_DTYPE_I32) {
    return wrong_dtype(0, i.dst.dtype, "nonzero_with_count writes i32");
  }
  if (i.dst.elements() != i.src0.elements() + 1) {
    return wrong_shape(0, kSizeByte, i.dst.elements(),
                       "the destination must have one element more than the source: the count");
  }
  return check_offset(i.scalar0, 0, i.dst.parts, limits);
}

Violation check_exchange(const Instruction& i) {
  if (Violation v = check_same_shape(i, true)) return v;
  if (Violation v = check_same_type(i, "sendrecv keeps the data type")) return v;
  if (i.dst.elements() > kMaxExchanged) {
    return wrong_shape(0, kSizeByte, i.dst.elements(),
                       "sendrecv moves at most 65536 elements of a partition");
  }
  return {};
}

}  // namespace

Violation check_pool_operands(const Instruction& i, const Limits& limits) {
  switch (i.opcode) {
    case NEURON_OP_IOTA:
      if (Violation v = check_pattern_size(i)) return v;
      return check_offset(i.scalar0, 0, i.dst.parts, limits, has_int64(i));
    case NEURON_OP_AFFINE_SELECT:
      if (Violation v = check_same_shape(i, true)) return v;
      if (Violation v = check_pattern_size(i)) return v;
      if (Violation v =
              has_int64(i) ? check_int64_scalar(i.scalar0, 0, i.dst.parts, limits)
                           : check_scalar_tile(i.scalar0, 0, i.dst.parts, kEngine, false, limits)) {
        return v;
      }
      return check_offset(i.scalar1, 1, i.dst.parts, limits);
    case NEURON_OP_PARTITION_REDUCE:
      return check_partition_reduce(i);
    case NEURON_OP_LOCAL_GATHER:
      return check_local_gather(i);
    case NEURON_OP_N_GATHER:
      return check_n_gather(i);
    case NEURON_OP_SEQUENCE_BOUNDS:
      return check_bounds(i);
    case NEURON_OP_TOPK:
      return check_topk(i);
    case NEURON_OP_NONZERO_WITH_COUNT:
      return check_nonzero(i, limits);
    case NEURON_OP_SENDRECV:
      return check_exchange(i);
    default:  // custom: each operator checks its own shapes
      return {};
  }
}

}  // namespace neuron::isa
