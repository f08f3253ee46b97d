// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/rules.h"

namespace neuron::isa {
namespace {

constexpr unsigned kOp = NEURON_INST_OP;

Violation not_allowed(unsigned offset, uint32_t value, const char* what, unsigned rule = 0) {
  return violation(NEURON_FAULT_OP_NOT_ALLOWED, offset, value, what, rule);
}

bool is_listed_alu(unsigned op) {
  return op <= NEURON_ALU_LOGICAL_XOR || is_bit_alu(op) ||
         (op >= NEURON_ALU_ABS && op <= NEURON_ALU_RECIPROCAL);
}

// Operations of elementwise tensor instructions; div, mod and average have other homes.
Violation check_elementwise(unsigned op, unsigned offset, unsigned engine, bool scalar) {
  if (!is_listed_alu(op)) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, offset, op,
                     "the ALU operation must be a listed one");
  }
  if (op == NEURON_ALU_DIV || op == NEURON_ALU_MOD || op == NEURON_ALU_AVERAGE) {
    return not_allowed(offset, op, "div and mod are for registers, average is for partitions");
  }
  if (op == NEURON_ALU_POW && !scalar && engine != NEURON_ENGINE_POOL) {
    return not_allowed(offset, op, "pow of two tensors is executed by Pool only");
  }
  if (op == NEURON_ALU_RSQRT && engine != NEURON_ENGINE_POOL) {
    return not_allowed(offset, op, "rsqrt as an ALU operation is executed by Pool only");
  }
  if (!scalar && (op == NEURON_ALU_BYPASS || is_unary_alu(op))) {
    return not_allowed(offset, op, "tensor_tensor needs an operation of two operands");
  }
  return {};
}

// One of the two steps of tensor_scalar: a binary operation has a scalar, any other has none.
Violation check_scalar_step(unsigned op, const Scalar& scalar, unsigned op_offset,
                            unsigned scalar_offset, unsigned engine) {
  if (Violation v = check_elementwise(op, op_offset, engine, true)) return v;
  const bool binary = op != NEURON_ALU_BYPASS && !is_unary_alu(op);
  if (binary && !scalar.present()) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, scalar_offset, op,
                     "an operation of two operands needs its scalar");
  }
  if (!binary && scalar.present()) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, scalar_offset, op,
                     "an operation of one operand takes no scalar");
  }
  return {};
}

Violation check_mixed_steps(unsigned op0, unsigned op1) {
  // R3: a bit operation works on raw integers, so it cannot be chained with arithmetic.
  if (op1 != NEURON_ALU_BYPASS && op0 != NEURON_ALU_BYPASS && is_bit_alu(op0) != is_bit_alu(op1)) {
    return not_allowed(kOp, op1, "both operations must be bit operations, or both arithmetic", 3);
  }
  return {};
}

Violation check_vector(const Instruction& i, unsigned engine) {
  const VectorOp& op = i.vector;
  switch (i.opcode) {
    case NEURON_OP_TENSOR_TENSOR:
      return check_elementwise(op.op0, kOp, engine, false);
    case NEURON_OP_TENSOR_SCALAR:
      if (Violation v = check_scalar_step(op.op0, i.scalar0, kOp, NEURON_INST_SCALAR0, engine)) {
        return v;
      }
      if (Violation v = check_scalar_step(op.op1, i.scalar1, kOp, NEURON_INST_SCALAR1, engine)) {
        return v;
      }
      return check_mixed_steps(op.op0, op.op1);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
      if (Violation v = check_scalar_step(op.op0, i.scalar0, kOp, NEURON_INST_SCALAR0, engine)) {
        return v;
      }
      if (Violation v = check_elementwise(op.op1, kOp, engine, false)) return v;
      if (is_bit_alu(op.op0) || is_bit_alu(op.op1)) {
        return not_allowed(kOp, op.op0, "scalar_tensor_tensor has arithmetic operations only", 3);
      }
      return {};
    case NEURON_OP_TENSOR_REDUCE:
      if (!is_reducible_alu(op.reduce)) {
        return not_allowed(kOp + 1, op.reduce,
                           "a reduction is add, sub, mul, max, min, logical_* or and, or, xor");
      }
      if (op.negate && is_bit_alu(op.reduce)) {
        return not_allowed(kOp + 2, op.reduce, "a bit reduction cannot be negated", 3);
      }
      if (op.axes < 1 || op.axes > 4) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 3, op.axes,
                         "the number of reduced dimensions must be 1 to 4");
      }
      return {};
    default:
      return {};
  }
}

Violation check_activate(const Instruction& i, const Limits& limits) {
  const ActOp& op = i.act;
  if (op.function >= 128 || op.table_set != 0) {
    return not_allowed(kOp, op.function, "this device has no loadable activation tables");
  }
  if (op.function > NEURON_ACT_RECIPROCAL) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp, op.function,
                     "the activation function must be a listed one");
  }
  if (op.reduce_command > NEURON_REDUCE_LOAD_ACCUMULATE) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 2, op.reduce_command,
                     "the reduce command must be 0 to 4", 8);
  }
  if (op.reduce_command == NEURON_REDUCE_LOAD_ACCUMULATE) {
    return not_allowed(kOp + 2, op.reduce_command,
                       "the accumulators of Activation cannot be loaded", 8);
  }
  const bool accumulates = op.reduce_command == NEURON_REDUCE_ACCUMULATE ||
                           op.reduce_command == NEURON_REDUCE_RESET_ACCUMULATE;
  if (op.reduce != NEURON_ALU_ADD && (accumulates || op.reduce != 0)) {
    return not_allowed(kOp + 2, op.reduce, "activate reduces by add only", 8);
  }
  if (limits.generation < 3) {
    if (i.scalar1.kind == NEURON_SCALAR_IMMEDIATE || i.scalar1.kind == NEURON_SCALAR_REGISTER) {
      return violation(NEURON_FAULT_WRONG_GENERATION, NEURON_INST_SCALAR1 + 4, i.scalar1.kind,
                       "the bias of activate must be a tile pointer before generation 3");
    }
    if (op.function == NEURON_ACT_RECIPROCAL && i.scalar1.present()) {
      return not_allowed(NEURON_INST_SCALAR1, i.scalar1.kind,
                         "reciprocal takes no bias before generation 3");
    }
  }
  return {};
}

Violation check_pe(const PeOp& op) {
  if (op.rows == 3 || op.columns == 3 || op.mode > 5) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp, op.rows,
                     "tile rows and columns must be 0 to 2, the mode 0 to 5");
  }
  if (op.row || op.column || op.rows || op.columns) {
    return not_allowed(kOp, op.row, "this device multiplies on the whole 128 x 128 array only");
  }
  if (op.mode != 0) return not_allowed(kOp + 1, op.mode, "this device has mode 0 (plain) only");
  return {};
}

Violation check_pattern(const Pattern& pattern) {
  for (unsigned d = 0; d < 4; ++d) {
    if (pattern.size[d] == 0 && pattern.step[d] != 0) {
      return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_SRC1 + 4 * d,
                       static_cast<uint32_t>(pattern.step[d]),
                       "size and step of an unused dimension must be 0", 0, 2);
    }
  }
  return {};
}

}  // namespace

bool is_bit_alu(unsigned op) { return op >= NEURON_ALU_AND && op <= NEURON_ALU_SHR_ARITH; }

bool is_unary_alu(unsigned op) {
  return op == NEURON_ALU_NOT || (op >= NEURON_ALU_ABS && op <= NEURON_ALU_RECIPROCAL);
}

bool is_register_alu(unsigned op) {
  return (op >= NEURON_ALU_ADD && op <= NEURON_ALU_MOD) ||
         (op >= NEURON_ALU_EQ && op <= NEURON_ALU_LE) || is_bit_alu(op);
}

bool is_reducible_alu(unsigned op) {
  switch (op) {
    case NEURON_ALU_ADD:
    case NEURON_ALU_SUB:
    case NEURON_ALU_MUL:
    case NEURON_ALU_MAX:
    case NEURON_ALU_MIN:
    case NEURON_ALU_LOGICAL_AND:
    case NEURON_ALU_LOGICAL_OR:
    case NEURON_ALU_LOGICAL_XOR:
    case NEURON_ALU_AND:
    case NEURON_ALU_OR:
    case NEURON_ALU_XOR:
      return true;
    default:
      return false;
  }
}

bool is_integer_dtype(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_U64:
    case NEURON_DTYPE_I64:
    case NEURON_DTYPE_I8:
    case NEURON_DTYPE_U8:
    case NEURON_DTYPE_I16:
    case NEURON_DTYPE_U16:
    case NEURON_DTYPE_I32:
    case NEURON_DTYPE_U32:
      return true;
    default:
      return false;
  }
}

Violation check_operations(const Instruction& i, unsigned engine, const Limits& limits) {
  switch (i.group()) {
    case 2:
      return check_pe(i.pe);
    case 3:
      return check_vector(i, engine);
    case 4:
      return check_activate(i, limits);
    case 5:
      return check_pattern(i.pattern);
    default:
      return {};
  }
}

}  // namespace neuron::isa
