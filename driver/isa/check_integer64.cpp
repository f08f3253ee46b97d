// SPDX-License-Identifier: Apache-2.0
// Rules of 64-bit integers, which Pool computes on from generation 3 on: what NKI has nothing for,
// so instructions, operations and types are our choice (hw/isa.h, decisions.md).
#include "driver/isa/operand_rules.h"

namespace neuron::isa {
namespace {

// What the gathered elements of an indirect operand have room for: a partition of generation 4.
constexpr uint64_t kMaxGathered = NEURON_V4_SBUF_PARTITION_BYTES / 8;

constexpr const char* kOperations =
    "on 64-bit integers Pool has add, sub, mul, max, min, abs_max, abs_min, comparisons and bit "
    "operations";

Violation check_operation(unsigned op, unsigned offset) {
  if (is_integer_alu(op) || is_bit_alu(op) || op == NEURON_ALU_BYPASS) return {};
  return violation(NEURON_FAULT_OP_NOT_ALLOWED, offset, op, kOperations, 3);
}

Violation check_one_type(const Instruction& i) {
  const Operand* sources[] = {&i.src0, &i.src1};
  for (unsigned s = 0; s < 2; ++s) {
    if (!sources[s]->present() || sources[s]->dtype == i.dst.dtype) continue;
    return wrong_dtype(s + 1, sources[s]->dtype,
                       "operands are i64 or u64 together, of one type; convert others with "
                       "tensor_copy");
  }
  return {};
}

}  // namespace

bool has_int64(const Instruction& i) {
  if (i.group() < 2 || i.group() > 5) return false;
  return is_int64_dtype(i.dst.dtype) || is_int64_dtype(i.src0.dtype) ||
         is_int64_dtype(i.src1.dtype);
}

bool takes_int64(unsigned opcode) {
  switch (opcode) {
    case NEURON_OP_MEMSET:
    case NEURON_OP_TENSOR_COPY:
    case NEURON_OP_TENSOR_TENSOR:
    case NEURON_OP_TENSOR_SCALAR:
    case NEURON_OP_TENSOR_REDUCE:
    case NEURON_OP_IOTA:
    case NEURON_OP_AFFINE_SELECT:
    case NEURON_OP_PARTITION_REDUCE:
    case NEURON_OP_LOCAL_GATHER:
    case NEURON_OP_N_GATHER:
    case NEURON_OP_SENDRECV:
      return true;
    default:
      return false;
  }
}

Violation check_int64(const Instruction& i) {
  const Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  for (unsigned o = 0; o < 3; ++o) {
    if (!is_int64_dtype(operands[o]->dtype)) continue;
    if (!takes_int64(i.opcode)) {
      return wrong_dtype(o, operands[o]->dtype,
                         "i64 and u64 only in memset, tensor_copy, tensor_tensor, tensor_scalar, "
                         "tensor_reduce, iota, affine_select, partition_reduce, local_gather, "
                         "n_gather, sendrecv");
    }
    if (operands[o]->indirect && operands[o]->elements() > kMaxGathered) {
      return wrong_shape(o, kSizeByte, operands[o]->elements(),
                         "an indirect operand of 64-bit integers has at most 32768 elements", 7);
    }
  }
  const VectorOp& op = i.vector;
  const bool reduces = i.opcode == NEURON_OP_TENSOR_REDUCE;
  switch (i.opcode) {
    case NEURON_OP_TENSOR_TENSOR:
    case NEURON_OP_TENSOR_SCALAR:
    case NEURON_OP_TENSOR_REDUCE:
    case NEURON_OP_PARTITION_REDUCE:
      break;
    case NEURON_OP_AFFINE_SELECT:
      return check_one_type(i);
    default:  // One operand, a copy that converts, or gathers, whose own rules ask for one type
      return {};
  }
  const unsigned first = reduces ? op.reduce : op.op0;
  const unsigned second =
      i.opcode == NEURON_OP_TENSOR_SCALAR ? op.op1 : unsigned{NEURON_ALU_BYPASS};
  if (Violation v = check_operation(first, NEURON_INST_OP + (reduces ? 1 : 0))) return v;
  if (Violation v = check_operation(second, NEURON_INST_OP)) return v;
  // Bit operations ask for one width, as on narrower integers (check_bit_types).
  return is_bit_alu(first) || is_bit_alu(second) ? Violation{} : check_one_type(i);
}

Violation check_int64_scalar(const Scalar& scalar, unsigned which, unsigned parts,
                             const Limits& limits) {
  if (!scalar.present()) return {};
  const unsigned offset = which == 0 ? NEURON_INST_SCALAR0 : NEURON_INST_SCALAR1;
  if (!is_integer_dtype(scalar.dtype)) {
    return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype,
                     "a scalar of 64-bit integers is an integer", 3);
  }
  if (scalar.kind == NEURON_SCALAR_POINTER) {
    return check_pointer(scalar, which, parts, 1, NEURON_ENGINE_POOL, limits, 8);
  }
  if (dtype_bytes(scalar.dtype) <= 4) return {};
  return violation(NEURON_FAULT_OPERAND_DTYPE, offset + 4, scalar.dtype,
                   "an immediate has 32 bits, extended by the sign of its type; i64 and u64 are "
                   "behind a pointer",
                   3);
}

}  // namespace neuron::isa
