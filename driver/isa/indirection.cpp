// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/indirection.h"

#include "driver/isa/operand_rules.h"

namespace neuron::isa {
namespace {

constexpr unsigned kRule = 7;
constexpr unsigned kDst = 1, kA = 2, kB = 4;
// Bytes of an operand that a violation points at.
constexpr unsigned kStartByte = 2, kSpaceByte = 5, kFlagByte = 6, kIndexSizeByte = 20;
constexpr unsigned kUnusedIndexBits = 10;

Violation refuse(unsigned code, unsigned which, unsigned byte, uint64_t value, const char* what) {
  return violation(code, slot_offset(which) + byte, static_cast<uint32_t>(value), what, kRule,
                   which);
}

bool is_index_dtype(unsigned dtype) {
  return dtype == NEURON_DTYPE_U16 || dtype == NEURON_DTYPE_I32 || dtype == NEURON_DTYPE_U32;
}

bool is_scaled(unsigned opcode) {
  return opcode == NEURON_OP_LDWEIGHTS_MX || opcode == NEURON_OP_MATMUL_MX;
}

// Types of matrices that the PE gathers; those of mx are checked with its scales.
bool is_gathered_matrix(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_F16:
    case NEURON_DTYPE_BF16:
    case NEURON_DTYPE_F8E4:
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_F8E4FN:
      return true;
    default:
      return false;
  }
}

// The tile of offsets itself.
Violation check_index(const Operand& operand, unsigned which, unsigned engine,
                      const Limits& limits) {
  const IndexPlace index = operand.index();
  const unsigned bytes = dtype_bytes(index.dtype);
  const unsigned group = index_group(engine);
  const uint64_t n = operand.elements();
  if (index.base % bytes != 0) {
    return refuse(NEURON_FAULT_OPERAND_DTYPE, which, kIndexSizeByte, index.base,
                  "the place of an index must be a multiple of the size of its offsets");
  }
  const uint64_t end = index.base + index_columns(n, group) * bytes;
  if (end > limits.sbuf_partition_bytes) {
    return refuse(NEURON_FAULT_OPERAND_RANGE, which, kIndexSizeByte, end,
                  "the index of an operand must lie in the bytes of an SBUF partition");
  }
  const unsigned last = index.start + index_partitions(operand.parts, n, group);
  if (last > NEURON_PARTITIONS) {
    return refuse(NEURON_FAULT_OPERAND_PARTITION, which, kIndexSizeByte, last,
                  "the index of an operand has as many partitions as it, and whole groups of 16 "
                  "(PE: 32): it must end with partition 127");
  }
  return {};
}

// The source that a scattered destination goes along with.
struct Partner {
  const Operand& operand;
  unsigned which;
};
Partner partner_of(const Instruction& i) {
  if (i.opcode == NEURON_OP_COPY_PREDICATED) return {i.src1, 2};
  return {i.src0, 1};
}

// Where the index of a destination starts. That of a product goes along with the weights, which the
// PE remembers.
Violation check_scatter(const Instruction& i, unsigned engine) {
  if (!i.dst.indirect) return {};
  if (engine == NEURON_ENGINE_ACTIVATION && i.dst.space == NEURON_SPACE_PSUM) {
    return refuse(NEURON_FAULT_OPERAND_SPACE, 0, kSpaceByte, i.dst.space,
                  "Activation scatters into SBUF only");
  }
  const bool product = i.opcode == NEURON_OP_MATMUL || i.opcode == NEURON_OP_MATMUL_MX;
  if (product) return {};
  const Partner partner = partner_of(i);
  const bool bound = partner.operand.space == NEURON_SPACE_SBUF || partner.operand.indirect;
  if (!bound || partner.operand.start == i.dst.index().start) return {};
  return refuse(NEURON_FAULT_OPERAND_PARTITION, 0, kIndexSizeByte, i.dst.index().start,
                partner.which == 1
                    ? "the index of a scattered destination must start on the partition of src0"
                    : "the index of a scattered destination must start on the partition of the "
                      "predicate, src1");
}

Violation check_pe_indirection(const Instruction& i) {
  if (i.pe.row != 0 || i.pe.column != 0) {
    return violation(NEURON_FAULT_OP_NOT_ALLOWED, NEURON_INST_OP, i.pe.row | i.pe.column << 2,
                     "PE has indirect operands on a tile of the array at 0x0 only", kRule);
  }
  if (!is_scaled(i.opcode)) {
    if (!i.src0.indirect || is_gathered_matrix(i.src0.dtype)) return {};
    return refuse(NEURON_FAULT_OPERAND_DTYPE, 1, 4, i.src0.dtype,
                  "PE gathers matrices of f16, bf16, f8e4, f8e5 and f8e4fn");
  }
  const bool agree =
      i.src0.indirect == i.src1.indirect && (!i.src0.indirect || i.src0.index() == i.src1.index());
  if (agree) return {};
  return refuse(NEURON_FAULT_OPERAND_SHAPE, 2, kIndexSizeByte, i.src1.indirect,
                "a matrix of mx and its scales have the same index, or both have none");
}

}  // namespace

unsigned indirect_operands(unsigned opcode, unsigned engine) {
  switch (opcode) {
    case NEURON_OP_LDWEIGHTS:
      return kA;
    case NEURON_OP_LDWEIGHTS_MX:
      return kA | kB;
    case NEURON_OP_MATMUL_MX:
      return kDst | kA | kB;
    case NEURON_OP_COPY_PREDICATED:
      return kDst | kB;
    case NEURON_OP_TENSOR_COPY:
    case NEURON_OP_TENSOR_REDUCE:
      return engine == NEURON_ENGINE_POOL ? 0 : kDst | kA;
    case NEURON_OP_MATMUL:
    case NEURON_OP_TRANSPOSE:
    case NEURON_OP_TENSOR_TENSOR:
    case NEURON_OP_TENSOR_SCALAR:
    case NEURON_OP_TENSOR_SCALAR_REDUCE:
    case NEURON_OP_TENSOR_SCALAR_CUMULATIVE:
    case NEURON_OP_EXPONENTIAL:
    case NEURON_OP_ACTIVATE:
    case NEURON_OP_ACTIVATE2:
      return kDst | kA;
    default:
      return 0;
  }
}

Violation check_indirect_operand(const Operand& operand, unsigned which, unsigned opcode,
                                 unsigned engine) {
  if ((indirect_operands(opcode, engine) >> which & 1) == 0) {
    return refuse(NEURON_FAULT_OP_NOT_ALLOWED, which, kFlagByte, 1,
                  "this operand of the opcode cannot be indirect on this engine; copy the elements "
                  "together first, with an indirect source of tensor_copy");
  }
  if (operand.ndim != 1) {
    return refuse(NEURON_FAULT_ILLEGAL_FIELD, which, kSpaceByte, operand.ndim,
                  "an indirect operand has one free dimension");
  }
  if (operand.step[0] != 1) {
    return refuse(NEURON_FAULT_ILLEGAL_FIELD, which, kSizeByte + 2,
                  static_cast<uint16_t>(operand.step[0]),
                  "the step of an indirect operand must be 1");
  }
  const unsigned dtype = operand.index().dtype;
  if (operand.size[3] >> kUnusedIndexBits != 0) {
    return refuse(NEURON_FAULT_ILLEGAL_FIELD, which, kIndexSizeByte, operand.size[3],
                  "bits 15:10 of the place of an index must be 0");
  }
  if (!is_index_dtype(dtype)) {
    return refuse(NEURON_FAULT_ILLEGAL_FIELD, which, kIndexSizeByte, dtype,
                  "the offsets of an index are u16 (5), i32 (8) or u32 (9)");
  }
  return {};
}

Violation check_indirection(const Instruction& i, unsigned engine, const Limits& limits) {
  const Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  bool any = false;
  for (unsigned o = 0; o < 3; ++o) {
    const Operand& operand = *operands[o];
    if (!operand.present() || !operand.indirect) continue;
    any = true;
    if (Violation v = check_indirect_operand(operand, o, i.opcode, engine)) return v;
    if (Violation v = check_index(operand, o, engine, limits)) return v;
    // The scales of mx have partitions of their own.
    const bool source = o != 0 && !(is_scaled(i.opcode) && o == 2);
    if (source && operand.start != operand.index().start) {
      return refuse(NEURON_FAULT_OPERAND_PARTITION, o, kStartByte, operand.start,
                    "an indirect source must start on the partition of its index");
    }
  }
  if (!any) return {};
  if (Violation v = check_scatter(i, engine)) return v;
  return i.group() == 2 ? check_pe_indirection(i) : Violation{};
}

}  // namespace neuron::isa
