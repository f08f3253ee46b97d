// SPDX-License-Identifier: Apache-2.0
// Operand rules of the compute instructions (R1-R5, R8) on the decoded form, after the substitution
// of registers, so a bad register value is found like a bad constant.
#include "driver/isa/indirection.h"
#include "driver/isa/operand_rules.h"
#include "driver/isa/sparsity.h"

namespace neuron::isa {
namespace {

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
    case NEURON_DTYPE_F8E4FN:  // generation 4; check_encoding has seen to it
      return true;
    default:
      return false;
  }
}

// Instructions that know x4 types and scales, or move bits.
bool takes_block_scaled(const Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_LDWEIGHTS_MX:
    case NEURON_OP_MATMUL_MX:
    case NEURON_OP_QUANTIZE_MX:
      return true;
    case NEURON_OP_TENSOR_COPY:
    case NEURON_OP_COPY_PREDICATED:
    case NEURON_OP_STREAM_SHUFFLE:
    case NEURON_OP_SENDRECV:
    case NEURON_OP_LOCAL_GATHER:
    case NEURON_OP_N_GATHER:
      return i.dst.dtype == i.src0.dtype;
    case NEURON_OP_MEMSET:
      return i.vector.imm == 0;
    default:
      return i.group() == 6 || i.opcode == NEURON_OP_TRANSPOSE;
  }
}

bool is_sparse(const Instruction& i) {
  return i.opcode == NEURON_OP_LDWEIGHTS_SPARSE || i.opcode == NEURON_OP_MATMUL_SPARSE;
}
bool is_double_row(const Instruction& i) {
  return i.pe.mode == NEURON_PE_DOUBLE_ROW && !is_sparse(i);
}

// 128, 64 or 32 rows or columns of the array, from the field of op.pe.
unsigned tile_size(unsigned field) { return NEURON_PE_MAX_K >> field; }

Violation shape(unsigned offset, uint64_t value, const char* what, unsigned which) {
  return violation(NEURON_FAULT_OPERAND_SHAPE, offset, static_cast<uint32_t>(value), what, 0,
                   which);
}

// Generation 3 transposes f8, too: into 16 bits each, of which the upper 8 are zero.
bool is_transposed(unsigned dtype, const Limits& limits) {
  if (dtype_bytes(dtype) >= 2) return true;
  return limits.generation >= 3 && is_pe_dtype(dtype);
}

// Both matrices of double_row: f8, with an outermost dimension of the two rows.
Violation check_two_rows(const Instruction& i) {
  const Operand& matrix = i.src0;
  const unsigned type = matrix.dtype;
  if (type != NEURON_DTYPE_F8E4 && type != NEURON_DTYPE_F8E5 && type != NEURON_DTYPE_F8E4FN) {
    return wrong_dtype(1, type, "double_row multiplies f8e4, f8e5 and f8e4fn");
  }
  const unsigned outermost = matrix.ndim > 1 ? matrix.size[matrix.ndim - 1u] : 0;
  if (outermost == 2) return {};
  return shape(slot_offset(1) + 8, outermost,
               "a matrix of double_row has an outermost free dimension of 2", 1);
}

// A compressed stationary matrix with its positions, or a moving one with its slots.
Violation check_sparse(const Instruction& i) {
  const Sparsity ratio = sparsity_of(i.pe.mode);
  const Operand& matrix = i.src0;
  if (dtype_bytes(matrix.dtype) == 4 && matrix.dtype != NEURON_DTYPE_TF32) {
    return wrong_dtype(1, matrix.dtype, "sparse products take f8, bf16, f16 and tf32");
  }
  if (matrix.parts % ratio.rows != 0) {
    return shape(slot_offset(1) + kPartsByte, matrix.parts,
                 "a sparse matrix has whole groups of compressed rows: of 4, 2 or 1 by its ratio",
                 1);
  }
  if (i.opcode == NEURON_OP_MATMUL_SPARSE) {
    const unsigned outermost = matrix.ndim > 1 ? matrix.size[matrix.ndim - 1u] : 0;
    if (outermost == ratio.slots) return {};
    return shape(slot_offset(1) + 8, outermost,
                 "the outermost free dimension of the moving matrix is that of the slots: dense "
                 "rows by compressed ones",
                 1);
  }
  if (i.src1.dtype != NEURON_DTYPE_U16) {
    return wrong_dtype(2, i.src1.dtype, "the positions of sparse weights are u16, four in each");
  }
  if (i.src1.space != NEURON_SPACE_SBUF) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(2) + 5, i.src1.space,
                     "PE reads SBUF only", 5, 2);
  }
  if (i.src1.parts != matrix.parts || 4 * i.src1.elements() != matrix.elements()) {
    return shape(slot_offset(2) + 8, i.src1.elements(),
                 "there are as many partitions of positions as of weights, and one u16 for four "
                 "columns",
                 2);
  }
  return {};
}

// A matrix of x4 elements and its scales.
Violation check_scaled(const Instruction& i) {
  if (!is_packed_dtype(i.src0.dtype)) {
    return wrong_dtype(1, i.src0.dtype, "mx multiplies f8e5x4, f8e4fnx4 and f4x4");
  }
  if (i.src0.parts % 32 != 0) {
    return shape(slot_offset(1) + kPartsByte, i.src0.parts,
                 "a matrix of mx has 32, 64, 96 or 128 partitions", 1);
  }
  if (i.src1.space != NEURON_SPACE_SBUF) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(2) + 5, i.src1.space,
                     "PE reads SBUF only", 5, 2);
  }
  return check_scales(i.src0, i.src0.elements(), i.src1);
}

// The destination of a matmul of `moving` columns.
Violation check_product(const Instruction& i, uint64_t moving, const Limits& limits) {
  const bool bf16 = i.dst.dtype == NEURON_DTYPE_BF16 && limits.psum_bf16;
  if (i.dst.dtype != NEURON_DTYPE_F32 && !bf16) {
    return violation(
        NEURON_FAULT_OPERAND_DTYPE, slot_offset(0) + 4, i.dst.dtype,
        limits.psum_bf16 ? "matmul writes f32 or bf16" : "matmul writes f32 before generation 4", 3,
        0);
  }
  if (moving > (bf16 ? limits.pe_max_n_bf16 : limits.pe_max_n)) {
    return shape(slot_offset(1) + 8, moving,
                 limits.psum_bf16
                     ? "the moving matrix has at most 4096 columns into f32, 8192 into bf16"
                     : "the moving matrix has at most 512 columns",
                 1);
  }
  if (i.dst.elements() != moving) {
    return shape(slot_offset(0) + 8, i.dst.elements(),
                 "the destination must have as many elements per partition as the moving matrix",
                 0);
  }
  return {};
}

Violation check_pe(const Instruction& i, const Limits& limits) {
  if (i.src0.space != NEURON_SPACE_SBUF) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(1) + 5, i.src0.space,
                     "PE reads SBUF only", 5, 1);
  }
  const bool transpose = i.opcode == NEURON_OP_TRANSPOSE;
  const bool scaled = i.opcode == NEURON_OP_LDWEIGHTS_MX || i.opcode == NEURON_OP_MATMUL_MX;
  const bool loads = i.opcode == NEURON_OP_LDWEIGHTS || i.opcode == NEURON_OP_LDWEIGHTS_MX ||
                     i.opcode == NEURON_OP_LDWEIGHTS_SPARSE;
  if (scaled) {
    if (Violation v = check_scaled(i)) return v;
  } else if (transpose ? !is_transposed(i.src0.dtype, limits) : !is_pe_dtype(i.src0.dtype)) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(1) + 4, i.src0.dtype,
                     transpose ? "transpose moves elements of 2 or 4 bytes, and f8 from generation "
                                 "3 on"
                               : "PE multiplies f32, f32r, tf32, bf16, f16 and f8 types",
                     3, 1);
  }
  uint64_t moving = i.src0.elements();
  if (is_double_row(i)) {
    if (Violation v = check_two_rows(i)) return v;
    moving /= 2;
  }
  if (is_sparse(i)) {
    if (Violation v = check_sparse(i)) return v;
    if (!loads) moving /= sparsity_of(i.pe.mode).slots;
  }
  if (i.src0.parts > tile_size(i.pe.rows)) {
    return shape(slot_offset(1) + kPartsByte, i.src0.parts,
                 "a matrix has at most as many partitions as the tile of the array has rows", 1);
  }
  if (loads) {
    if (moving > NEURON_PE_MAX_M) {
      return shape(slot_offset(1) + 8, moving, "the stationary matrix has at most 128 columns", 1);
    }
    if (moving > tile_size(i.pe.columns)) {
      return shape(slot_offset(1) + 8, moving,
                   "the stationary matrix has at most as many columns as the tile of the array", 1);
    }
    if (scaled && moving % 2 != 0) {
      return shape(slot_offset(1) + 8, moving,
                   "the stationary matrix of mx has an even number of columns", 1);
    }
    return {};
  }
  if (i.dst.parts > tile_size(i.pe.columns)) {
    return shape(slot_offset(0) + kPartsByte, i.dst.parts,
                 "the destination has at most as many partitions as the tile of the array has "
                 "columns",
                 0);
  }
  if (i.dst.space != NEURON_SPACE_PSUM) {
    return violation(NEURON_FAULT_OPERAND_SPACE, slot_offset(0) + 5, i.dst.space,
                     "PE writes PSUM only", 5, 0);
  }
  const unsigned element = dtype_bytes(i.dst.dtype);
  if (transpose) {
    const bool f8 = dtype_bytes(i.src0.dtype) == 1;
    if (f8 ? i.dst.dtype != NEURON_DTYPE_U16 : i.dst.dtype != i.src0.dtype) {
      return violation(NEURON_FAULT_OPERAND_DTYPE, slot_offset(0) + 4, i.dst.dtype,
                       f8 ? "transpose writes f8 into the lower bytes of u16"
                          : "transpose keeps the data type of its source",
                       3, 0);
    }
    if (i.dst.parts != moving || i.dst.elements() != i.src0.parts) {
      return shape(slot_offset(0) + 2, i.dst.parts,
                   "transpose of [P, F] writes F partitions of P elements", 0);
    }
  } else if (Violation v = check_product(i, moving, limits)) {
    return v;
  }
  if (limits.psum_bf16) return {};  // From generation 4 on a destination may span the banks
  const Extent e = extent(i.dst, element);
  if (e.first / NEURON_PSUM_BANK_BYTES != e.last / NEURON_PSUM_BANK_BYTES) {
    return violation(NEURON_FAULT_OPERAND_RANGE, slot_offset(0), static_cast<uint32_t>(e.last),
                     "the destination of PE must lie in one PSUM bank of 2048 bytes", 2, 0);
  }
  return {};
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

Violation check_alignment(uint64_t address, unsigned offset) {
  if (address % 4 == 0) return {};
  return violation(NEURON_FAULT_OPERAND_DTYPE, offset, static_cast<uint32_t>(address),
                   "a device address must be a multiple of 4");
}

}  // namespace

Violation check_operands(const Instruction& i, unsigned engine, const Limits& limits) {
  switch (i.opcode) {
    case NEURON_OP_WRITE:
    case NEURON_OP_CC_TRIGGER:
    case NEURON_OP_LOAD:
    case NEURON_OP_STORE:
    case NEURON_OP_LOAD_TABLE:
      if (Violation v = check_alignment(i.address.addr, NEURON_ADDRESS_ADDR)) return v;
      return check_alignment(static_cast<uint32_t>(i.address.stride), NEURON_ADDRESS_STRIDE);
    case NEURON_OP_CUSTOM_OPERATOR:
      if (i.address.addr % 8 == 0) return {};
      return violation(NEURON_FAULT_OPERAND_DTYPE, NEURON_ADDRESS_ADDR,
                       static_cast<uint32_t>(i.address.addr),
                       "the address of a call table must be a multiple of 8");
    case NEURON_OP_DMA_TRIGGER:
      if (Violation v = check_alignment(i.trigger.m2s, NEURON_DMA_TRIGGER_M2S)) return v;
      if (Violation v = check_alignment(i.trigger.s2m, NEURON_DMA_TRIGGER_S2M)) return v;
      return check_alignment(i.trigger.stride, NEURON_DMA_TRIGGER_STRIDE);
    default:
      break;
  }
  const unsigned group = i.group();
  if (group == 6) return check_dma_operands(i, engine, limits);
  if (group < 2 || group > 5) return {};
  const Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  for (unsigned o = 0; o < 3; ++o) {
    if (!operands[o]->present()) {
      // No other check has seen the bytes of an absent operand, so its dimensions must not be
      // walked.
      if (operands[o]->ndim == 0) continue;
      return violation(NEURON_FAULT_OPERAND_SHAPE, slot_offset(o) + 5, operands[o]->ndim,
                       "an absent operand has no dimensions", 0, o);
    }
    if (Violation v = check_tile(*operands[o], o, engine, limits)) return v;
    const unsigned type = operands[o]->dtype;
    if ((is_packed_dtype(type) || type == NEURON_DTYPE_E8M0) && !takes_block_scaled(i)) {
      return wrong_dtype(o, type,
                         "x4 types and scales are moved, quantised and multiplied (mx), nothing "
                         "else");
    }
  }
  if (Violation v = check_indirection(i, engine, limits)) return v;
  if (has_int64(i)) {
    if (Violation v = check_int64(i)) return v;
  }
  switch (group) {
    case 2:
      return check_pe(i, limits);
    case 3:
      return check_vector_operands(i, engine, limits);
    case 4:
      return check_activate(i, limits);
    default:
      return check_pool_operands(i, limits);
  }
}

}  // namespace neuron::isa
