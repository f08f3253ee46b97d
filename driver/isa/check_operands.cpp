// SPDX-License-Identifier: Apache-2.0
// Operand rules of the compute instructions (R1-R5, R8) on the decoded form, after the substitution
// of registers, so a bad register value is found like a bad constant.
#include "driver/isa/operand_rules.h"

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
      return true;
    default:
      return false;
  }
}

// 128, 64 or 32 rows or columns of the array, from the field of op.pe.
unsigned tile_size(unsigned field) { return NEURON_PE_MAX_K >> field; }

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
  if (i.src0.parts > tile_size(i.pe.rows)) {
    return shape(slot_offset(1) + kPartsByte, i.src0.parts,
                 "a matrix has at most as many partitions as the tile of the array has rows", 1);
  }
  if (i.opcode == NEURON_OP_LDWEIGHTS) {
    if (moving > NEURON_PE_MAX_M) {
      return shape(slot_offset(1) + 8, moving, "the stationary matrix has at most 128 columns", 1);
    }
    if (moving > tile_size(i.pe.columns)) {
      return shape(slot_offset(1) + 8, moving,
                   "the stationary matrix has at most as many columns as the tile of the array", 1);
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
  }
  switch (group) {
    case 2:
      return check_pe(i);
    case 3:
      return check_vector_operands(i, engine, limits);
    case 4:
      return check_activate(i, limits);
    default:
      return check_pool_operands(i, limits);
  }
}

}  // namespace neuron::isa
