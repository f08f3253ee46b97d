// SPDX-License-Identifier: Apache-2.0
// Operand rules of group 3: the instructions of the Vector engine, some of which Pool and
// Activation execute as well.
#include "driver/isa/operand_rules.h"
#include "driver/isa/scale_rows.h"

namespace neuron::isa {
namespace {

constexpr unsigned kBest = 8;                  // values that max8 and its companions handle
constexpr uint64_t kMaxSearch = 16384;         // elements that they look through
constexpr uint64_t kMaxStatisticsInput = 512;  // elements of bn_stats
constexpr unsigned kBlock = 32;                // rows and columns of a transposed block

Violation check_reduce(const Instruction& i) {
  if (Violation v = check_same_shape(i, false)) return v;
  if (is_bit_alu(i.vector.reduce)) {
    if (Violation v = check_bit_types(i)) return v;
  }
  if (i.vector.axes > i.src0.ndim) {
    return violation(NEURON_FAULT_OPERAND_SHAPE, NEURON_INST_OP + 3, i.vector.axes,
                     "no more dimensions can be reduced than the source has", 0, 1);
  }
  uint64_t kept = 1;
  for (unsigned d = i.vector.axes; d < i.src0.ndim; ++d) kept *= i.src0.size[d];
  if (i.dst.elements() != kept) {
    return wrong_shape(
        0, kSizeByte, i.dst.elements(),
        "the destination must have one element for each position that is not reduced");
  }
  return {};
}

// R5: one port to PSUM for the inputs of an elementwise instruction.
Violation check_one_psum_input(const Instruction& i) {
  if (i.src0.space == NEURON_SPACE_PSUM && i.src1.space == NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(2) + 5, i.src1.space,
                     "at most one input can be in PSUM", 5, 2);
  }
  return {};
}

Violation check_elements(const Operand& operand, unsigned which, uint64_t wanted,
                         const char* what) {
  if (operand.elements() == wanted) return {};
  return wrong_shape(which, kSizeByte, operand.elements(), what);
}

bool is_32_bit_integer(unsigned dtype) {
  return dtype == NEURON_DTYPE_I32 || dtype == NEURON_DTYPE_U32;
}

Violation check_cumulative(const Instruction& i) {
  const Operand* operands[] = {&i.dst, &i.src0};
  for (unsigned o = 0; o < 2; ++o) {
    if (is_32_bit_integer(operands[o]->dtype)) {
      return wrong_dtype(o, operands[o]->dtype,
                         "tensor_scalar_cumulative takes no 32-bit integers");
    }
  }
  return {};
}

Violation check_predicated(const Instruction& i) {
  switch (i.src1.dtype) {
    case NEURON_DTYPE_U8:
    case NEURON_DTYPE_U16:
    case NEURON_DTYPE_U32:
      break;
    default:
      return wrong_dtype(2, i.src1.dtype, "a predicate is u8, u16 or u32");
  }
  if (i.src0.present() && i.src0.dtype != i.dst.dtype) {
    return wrong_dtype(1, i.src0.dtype, "copy_predicated keeps the data type of its source");
  }
  if (i.scalar0.kind == NEURON_SCALAR_POINTER && i.scalar0.dtype != i.dst.dtype) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, NEURON_INST_SCALAR0 + 4, i.scalar0.dtype,
                     "copy_predicated keeps the data type of its source", 3);
  }
  return {};
}

Violation check_searched(const Instruction& i) {
  const uint64_t n = i.src0.elements();
  if (n < kBest || n > kMaxSearch) {
    return wrong_shape(1, kSizeByte, n,
                       "max8, find_index8 and match_replace8 look through 8 to "
                       "16384 elements per partition");
  }
  return {};
}

Violation check_find(const Instruction& i) {
  if (Violation v = check_searched(i)) return v;
  if (Violation v =
          check_elements(i.src1, 2, kBest, "find_index8 looks for 8 values per partition")) {
    return v;
  }
  if (i.dst.dtype != NEURON_DTYPE_U16 && i.dst.dtype != NEURON_DTYPE_U32) {
    return wrong_dtype(0, i.dst.dtype, "indices are u16 or u32");
  }
  return check_elements(i.dst, 0, kBest, "the destination must have 8 elements per partition");
}

Violation check_replace(const Instruction& i, unsigned engine, const Limits& limits) {
  if (Violation v = check_searched(i)) return v;
  if (Violation v = check_same_shape(i, true)) return v;
  if (Violation v = check_pointer(i.scalar0, 0, i.dst.parts, kBest, engine, limits)) return v;
  if (!i.scalar1.present()) return {};
  if (i.scalar1.dtype != NEURON_DTYPE_U16 && i.scalar1.dtype != NEURON_DTYPE_U32) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, NEURON_INST_SCALAR1 + 4, i.scalar1.dtype,
                     "indices are u16 or u32", 3);
  }
  return check_pointer(i.scalar1, 1, i.dst.parts, kBest, engine, limits);
}

Violation check_select(const Instruction& i) {
  switch (i.src1.dtype) {
    case NEURON_DTYPE_I8:
    case NEURON_DTYPE_U8:
    case NEURON_DTYPE_I16:
    case NEURON_DTYPE_U16:
      break;
    default:
      return wrong_dtype(2, i.src1.dtype, "the predicate of select_reduce is i8, u8, i16 or u16");
  }
  if (i.src0.dtype == NEURON_DTYPE_TF32 || is_32_bit_integer(i.src0.dtype)) {
    return wrong_dtype(1, i.src0.dtype, "select_reduce takes no tf32 and no 32-bit integers");
  }
  if (i.scalar0.dtype != NEURON_DTYPE_F32) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, NEURON_INST_SCALAR0 + 4, i.scalar0.dtype,
                     "the other value of select_reduce is f32", 3);
  }
  return {};
}

// Bounds of range_select and of rand2.
Violation check_f32_scalars(const Instruction& i, const char* what) {
  for (unsigned s = 0; s < 2; ++s) {
    const Scalar& scalar = s == 0 ? i.scalar0 : i.scalar1;
    if (!scalar.present() || scalar.dtype == NEURON_DTYPE_F32) continue;
    const unsigned at = s == 0 ? NEURON_INST_SCALAR0 : NEURON_INST_SCALAR1;
    return violation(NEURON_FAULT_OPERAND_DTYPE, at + 4, scalar.dtype, what, 3);
  }
  return {};
}

// XORWOW states: six words, four states of each lane of Vector.
Violation check_random_state(const Operand& states, unsigned which, unsigned engine) {
  if (states.dtype != NEURON_DTYPE_U32) {
    return wrong_dtype(which, states.dtype, "a state of random numbers is u32");
  }
  const uint64_t wanted = engine == NEURON_ENGINE_POOL ? 6 : 24;
  return check_elements(states, which, wanted,
                        "the random state of a partition is 6 words on Pool, 24 on DVE");
}

Violation check_quantize(const Instruction& i) {
  if (i.vector.imm >= kQuarters) {  // it may come from a register
    return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_OP + 4, i.vector.imm,
                     "the quarter of the scale rows must be 0 to 3");
  }
  if (i.dst.dtype != NEURON_DTYPE_F8E5X4 && i.dst.dtype != NEURON_DTYPE_F8E4FNX4) {
    return wrong_dtype(0, i.dst.dtype, "quantize_mx writes f8e5x4 or f8e4fnx4");
  }
  if (i.src0.dtype != NEURON_DTYPE_BF16 && i.src0.dtype != NEURON_DTYPE_F16) {
    return wrong_dtype(1, i.src0.dtype, "quantize_mx reads bf16 or f16");
  }
  const Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  for (unsigned o = 0; o < 3; ++o) {
    if (operands[o]->space == NEURON_SPACE_SBUF) continue;
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(o) + 5, operands[o]->space,
                     "quantize_mx works in SBUF", 5, o);
  }
  if (i.src0.parts % 32 != 0 || i.dst.parts != i.src0.parts) {
    return wrong_shape(1, kPartsByte, i.src0.parts,
                       "quantize_mx works on 32, 64, 96 or 128 partitions, the same on both sides");
  }
  if (i.src0.elements() != i.dst.elements() * NEURON_MX_CODES) {
    return wrong_shape(1, kSizeByte, i.src0.elements(),
                       "quantize_mx packs four elements into one of its destination");
  }
  return check_scales(i.dst, i.dst.elements(), i.src1);
}

// Each whole block of 32 x 32 is transposed in its place; a single smaller block [P, N] becomes [N,
// P].
Violation check_transpose32(const Instruction& i) {
  if (i.dst.dtype != i.src0.dtype) {
    return wrong_dtype(0, i.dst.dtype, "transpose32 keeps the data type of its source");
  }
  const uint64_t n = i.src0.elements();
  const unsigned parts = i.src0.parts;
  if (parts % kBlock == 0 && n % kBlock == 0) return check_same_shape(i, true);
  if (parts > kBlock || n > kBlock) {
    return parts % kBlock != 0
               ? wrong_shape(1, kPartsByte, parts,
                             "transpose32 takes multiples of 32 partitions and elements, or one "
                             "block of at most 32 x 32")
               : wrong_shape(1, kSizeByte, n,
                             "transpose32 takes multiples of 32 partitions and elements, or one "
                             "block of at most 32 x 32");
  }
  if (i.dst.parts != n) {
    return wrong_shape(0, kPartsByte, i.dst.parts,
                       "the transposed block has as many partitions as the source has elements");
  }
  return check_elements(i.dst, 0, parts,
                        "the transposed block has as many elements as the source has partitions");
}

Violation check_scalars(const Instruction& i, unsigned engine, bool bits, const Limits& limits) {
  if (has_int64(i)) {
    if (Violation v = check_int64_scalar(i.scalar0, 0, i.dst.parts, limits)) return v;
    return check_int64_scalar(i.scalar1, 1, i.dst.parts, limits);
  }
  if (Violation v = check_scalar_tile(i.scalar0, 0, i.dst.parts, engine, bits, limits)) return v;
  return check_scalar_tile(i.scalar1, 1, i.dst.parts, engine, bits, limits);
}

// One output element for each input element; scalars of one value per partition.
Violation check_elementwise(const Instruction& i, unsigned engine, const Limits& limits) {
  if (Violation v = check_same_shape(i, true)) return v;
  if (Violation v = check_one_psum_input(i)) return v;
  bool bits = false;
  if (i.opcode == NEURON_OP_TENSOR_TENSOR || i.opcode == NEURON_OP_TENSOR_SCALAR) {
    bits = is_bit_alu(i.vector.op0) || is_bit_alu(i.vector.op1);
  }
  if (bits) {
    if (Violation v = check_bit_types(i)) return v;
  }
  return check_scalars(i, engine, bits, limits);
}

}  // namespace

Violation check_vector_operands(const Instruction& i, unsigned engine, const Limits& limits) {
  switch (i.opcode) {
    case NEURON_OP_TENSOR_REDUCE:
      return check_reduce(i);
    case NEURON_OP_READ_ACC:
      if (i.dst.elements() == 1) return {};
      return wrong_shape(0, kSizeByte, i.dst.elements(),
                         "an accumulator is read into one element per partition", 8);
    case NEURON_OP_TENSOR_SCALAR_CUMULATIVE:
      if (Violation v = check_cumulative(i)) return v;
      break;
    case NEURON_OP_SELECT_REDUCE:
      if (Violation v = check_select(i)) return v;
      break;
    case NEURON_OP_RANGE_SELECT:
      if (Violation v = check_f32_scalars(i, "the bounds of range_select are f32")) return v;
      break;
    case NEURON_OP_RAND2:
      if (!is_float_dtype(i.dst.dtype)) {
        return wrong_dtype(0, i.dst.dtype, "rand2 writes a float type");
      }
      if (Violation v = check_f32_scalars(i, "the bounds of rand2 are f32")) return v;
      break;
    case NEURON_OP_RAND_SET_STATE:
      return check_random_state(i.src0, 1, engine);
    case NEURON_OP_RAND_GET_STATE:
      return check_random_state(i.dst, 0, engine);
    case NEURON_OP_QUANTIZE_MX:
      return check_quantize(i);
    case NEURON_OP_COPY_PREDICATED:
      if (Violation v = check_predicated(i)) return v;
      break;
    case NEURON_OP_BN_STATS:
      if (Violation v = check_same_shape(i, false)) return v;
      if (i.src0.elements() > kMaxStatisticsInput) {
        return wrong_shape(1, kSizeByte, i.src0.elements(),
                           "bn_stats takes at most 512 elements per partition");
      }
      return check_elements(i.dst, 0, 6, "bn_stats writes 6 elements per partition");
    case NEURON_OP_BN_AGGR:
      if (Violation v = check_same_shape(i, false)) return v;
      if (i.src0.elements() % 3 != 0) {
        return wrong_shape(1, kSizeByte, i.src0.elements(),
                           "bn_aggr takes triples: the elements must be a multiple of 3");
      }
      return check_elements(i.dst, 0, 2, "bn_aggr writes 2 elements per partition");
    case NEURON_OP_MAX8:
      if (Violation v = check_same_shape(i, false)) return v;
      if (Violation v = check_searched(i)) return v;
      return check_elements(i.dst, 0, kBest, "the destination must have 8 elements per partition");
    case NEURON_OP_FIND_INDEX8:
      if (Violation v = check_same_shape(i, false)) return v;
      return check_find(i);
    case NEURON_OP_MATCH_REPLACE8:
      return check_replace(i, engine, limits);
    case NEURON_OP_STREAM_SHUFFLE:
      if (i.dst.dtype != i.src0.dtype) {
        return wrong_dtype(0, i.dst.dtype, "stream_shuffle keeps the data type of its source");
      }
      break;
    case NEURON_OP_TRANSPOSE32:
      return check_transpose32(i);
    case NEURON_OP_DROPOUT:
      if (i.dst.dtype != i.src0.dtype) {
        return wrong_dtype(0, i.dst.dtype, "dropout keeps the data type of its source");
      }
      break;
    case NEURON_OP_RNG:
      if (!is_integer_dtype(i.dst.dtype)) {
        return wrong_dtype(0, i.dst.dtype, "random bits are written as integers");
      }
      break;
    case NEURON_OP_SET_RNG_SEED:
      if (i.src0.dtype != NEURON_DTYPE_U32) {
        return wrong_dtype(1, i.src0.dtype, "a seed is u32");
      }
      if (i.src0.parts != 1) {
        return wrong_shape(1, kPartsByte, i.src0.parts, "a seed is one element of one partition");
      }
      return check_elements(i.src0, 1, 1, "a seed is one element of one partition");
    default:
      break;
  }
  return check_elementwise(i, engine, limits);
}

}  // namespace neuron::isa
