// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/rules.h"

#include "driver/isa/sparsity.h"

namespace neuron::isa {
namespace {

constexpr unsigned kOp = NEURON_INST_OP;
constexpr unsigned kFirstTableFunction = 128;

Violation not_allowed(unsigned offset, uint32_t value, const char* what, unsigned rule = 0) {
  return violation(NEURON_FAULT_OP_NOT_ALLOWED, offset, value, what, rule);
}

bool is_listed_alu(unsigned op) {
  return op <= NEURON_ALU_LOGICAL_XOR || is_bit_alu(op) ||
         (op >= NEURON_ALU_ABS && op <= NEURON_ALU_RECIPROCAL);
}

// Operations of elementwise tensor instructions.
Violation check_elementwise(unsigned op, unsigned offset, unsigned engine, bool scalar) {
  if (!is_listed_alu(op)) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, offset, op,
                     "the ALU operation must be a listed one");
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

// R8: what an accumulator does. load_reduce needs an initial value to load; those who have one have
// it in scalar1, with this command only.
Violation check_reduce_command(unsigned command, const Scalar* initial) {
  if (command > NEURON_REDUCE_LOAD_ACCUMULATE) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 2, command,
                     "the reduce command must be 0 to 4", 8);
  }
  const bool loads = command == NEURON_REDUCE_LOAD_ACCUMULATE;
  if (initial == nullptr) {
    if (!loads) return {};
    return not_allowed(
        kOp + 2, command,
        "only tensor_scalar_reduce, tensor_scalar_cumulative and exponential have an "
        "initial value to load",
        8);
  }
  if (loads == initial->present()) return {};
  return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_SCALAR1, initial->kind,
                   "load_reduce, and no other command, has an initial value in scalar1", 8);
}

Violation check_scalar_reduce(const Instruction& i, unsigned engine) {
  const VectorOp& op = i.vector;
  if (Violation v = check_scalar_step(op.op0, i.scalar0, kOp, NEURON_INST_SCALAR0, engine)) {
    return v;
  }
  if (is_bit_alu(op.op0)) {
    return not_allowed(kOp, op.op0, "tensor_scalar_reduce has arithmetic operations only", 3);
  }
  switch (op.reduce) {
    case NEURON_ALU_ADD:
    case NEURON_ALU_MUL:
    case NEURON_ALU_MAX:
    case NEURON_ALU_MIN:
      break;
    default:
      return not_allowed(kOp + 1, op.reduce, "tensor_scalar_reduce reduces by add, mul, max or min",
                         8);
  }
  return check_reduce_command(op.reduce_command, &i.scalar1);
}

Violation check_cumulative(const Instruction& i, unsigned engine) {
  const VectorOp& op = i.vector;
  if (Violation v = check_scalar_step(op.op0, i.scalar0, kOp, NEURON_INST_SCALAR0, engine)) {
    return v;
  }
  if (is_bit_alu(op.op0)) {
    return not_allowed(kOp, op.op0, "tensor_scalar_cumulative has arithmetic operations only", 3);
  }
  if (op.op1 < NEURON_ALU_ADD || op.op1 > NEURON_ALU_MIN) {
    return not_allowed(kOp, op.op1, "a cumulative operation is add, sub, mul, max or min", 8);
  }
  if (op.reduce_command < NEURON_REDUCE_ACCUMULATE) {
    return not_allowed(kOp + 2, op.reduce_command,
                       "a cumulative operation accumulates: reduce, reset_reduce or load_reduce",
                       8);
  }
  return check_reduce_command(op.reduce_command, &i.scalar1);
}

Violation check_scan(const VectorOp& op, unsigned engine) {
  for (const unsigned step : {op.op0, op.op1}) {
    if (Violation v = check_elementwise(step, kOp, engine, false)) return v;
    if (is_bit_alu(step)) {
      return not_allowed(kOp, step, "tensor_tensor_scan has arithmetic operations only", 3);
    }
  }
  return {};
}

Violation check_shuffle(const std::array<uint8_t, NEURON_SHUFFLE_ROWS>& mask) {
  for (unsigned r = 0; r < mask.size(); ++r) {
    if (mask[r] >= NEURON_SHUFFLE_ROWS && mask[r] != NEURON_SHUFFLE_KEEP) {
      return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_SHUFFLE_MASK + r, mask[r],
                       "a row of the mask is 0 to 31, or 255 to keep the row of the destination");
    }
  }
  return {};
}

// The Scalar engine of generation 3 executes some of tensor_scalar, the steps that scale and bias
// can do; from generation 4 on all of its arithmetic. Bit operations are Vector's.
Violation check_scalar_engine_steps(const Instruction& i, const Limits& limits) {
  const VectorOp& op = i.vector;
  if (limits.generation >= 4) {
    for (const unsigned step : {op.op0, op.op1}) {
      if (is_bit_alu(step)) {
        return not_allowed(kOp, step,
                           "on Activation, tensor_scalar has arithmetic operations only; use "
                           "Vector",
                           3);
      }
    }
    return {};
  }
  const bool two = i.scalar1.present();
  const bool known = two ? op.op0 == NEURON_ALU_MUL && op.op1 == NEURON_ALU_ADD
                         : op.op0 == NEURON_ALU_MUL || op.op0 == NEURON_ALU_ADD;
  if (known) return {};
  return not_allowed(kOp, op.op0,
                     "on Activation, tensor_scalar is mul, add, or mul then add; use Vector");
}

// Instructions whose accumulator knows one operation: it, or none where nothing is reduced.
Violation check_one_reduction(const Instruction& i, unsigned operation, const char* what,
                              const Scalar* initial = nullptr) {
  const VectorOp& op = i.vector;
  const bool accumulates = op.reduce_command >= NEURON_REDUCE_ACCUMULATE;
  if (op.reduce != operation && (accumulates || op.reduce != NEURON_ALU_BYPASS)) {
    return not_allowed(kOp + 1, op.reduce, what, 8);
  }
  return check_reduce_command(op.reduce_command, initial);
}

Violation check_range_select(const Instruction& i) {
  for (const unsigned step : {i.vector.op0, i.vector.op1}) {
    if (is_comparison_alu(step) && step != NEURON_ALU_NE) continue;
    return not_allowed(kOp, step, "range_select compares: eq, gt, ge, lt or le");
  }
  return check_one_reduction(i, NEURON_ALU_MAX, "range_select reduces by max only");
}

Violation check_vector(const Instruction& i, unsigned engine, const Limits& limits) {
  const VectorOp& op = i.vector;
  switch (i.opcode) {
    case NEURON_OP_SELECT_REDUCE:
      return check_one_reduction(i, NEURON_ALU_MAX, "select_reduce reduces by max only");
    case NEURON_OP_RANGE_SELECT:
      return check_range_select(i);
    case NEURON_OP_EXPONENTIAL:
      return check_one_reduction(i, NEURON_ALU_ADD, "exponential reduces by add only", &i.scalar1);
    case NEURON_OP_TENSOR_SCALAR_REDUCE:
      return check_scalar_reduce(i, engine);
    case NEURON_OP_TENSOR_SCALAR_CUMULATIVE:
      return check_cumulative(i, engine);
    case NEURON_OP_TENSOR_TENSOR_SCAN:
      return check_scan(op, engine);
    case NEURON_OP_COPY_PREDICATED:
      if (i.src0.present() == i.scalar0.present()) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_SCALAR0 + 4, i.scalar0.kind,
                         "copy_predicated has one source: src0 or scalar0");
      }
      return {};
    case NEURON_OP_STREAM_SHUFFLE:
      return check_shuffle(i.shuffle);
    case NEURON_OP_MATCH_REPLACE8:
      if (i.scalar0.kind != NEURON_SCALAR_POINTER) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_SCALAR0 + 4, i.scalar0.kind,
                         "the values of match_replace8 must be behind a pointer (2)");
      }
      if (i.scalar1.present() && i.scalar1.kind != NEURON_SCALAR_POINTER) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_SCALAR1 + 4, i.scalar1.kind,
                         "the indices of match_replace8 go behind a pointer (2)");
      }
      return {};
    case NEURON_OP_TENSOR_TENSOR:
      return check_elementwise(op.op0, kOp, engine, false);
    case NEURON_OP_TENSOR_SCALAR:
      if (Violation v = check_scalar_step(op.op0, i.scalar0, kOp, NEURON_INST_SCALAR0, engine)) {
        return v;
      }
      if (Violation v = check_scalar_step(op.op1, i.scalar1, kOp, NEURON_INST_SCALAR1, engine)) {
        return v;
      }
      if (engine == NEURON_ENGINE_ACTIVATION) return check_scalar_engine_steps(i, limits);
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

// Steps and their scalars, and what the accumulators of activate2 do beside adding.
Violation check_activate2(const Instruction& i, bool accumulates) {
  const ActOp& op = i.act;
  if (op.pre > NEURON_PRE_MUL_SUB) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 3, op.pre,
                     "the steps of activate2 must be 0 to 5");
  }
  const bool first = op.pre != NEURON_PRE_NONE;
  const bool second = op.pre >= NEURON_PRE_MUL_ADD;
  if (i.scalar0.present() != first || i.scalar1.present() != second) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, NEURON_INST_SCALAR0 + 4, op.pre,
                     "activate2 has one scalar for each of its steps");
  }
  if ((op.rev0 && !first) || (op.rev1 && !second)) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 3, op.pre,
                     "only a step that activate2 has can be reversed");
  }
  switch (op.reduce) {
    case NEURON_ALU_BYPASS:
      if (!accumulates) return {};
      break;
    case NEURON_ALU_ADD:
    case NEURON_ALU_MAX:
    case NEURON_ALU_MIN:
    case NEURON_ALU_ABS_MAX:
    case NEURON_ALU_ABS_MIN:
      return {};
    default:
      break;
  }
  return not_allowed(kOp + 2, op.reduce, "activate2 reduces by add, max, min, abs_max or abs_min",
                     8);
}

Violation check_activate(const Instruction& i, const Limits& limits) {
  const ActOp& op = i.act;
  if (i.opcode == NEURON_OP_LOAD_TABLE) return {};
  if (op.function > NEURON_ACT_RECIPROCAL && op.function < kFirstTableFunction) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp, op.function,
                     "the activation function must be a listed one, or 128 to 255 of a table");
  }
  if (op.table_set != 0 && op.function < kFirstTableFunction) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 1, op.table_set,
                     "only functions 128 to 255 belong to a table set");
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
  if (i.opcode == NEURON_OP_ACTIVATE2) return check_activate2(i, accumulates);
  if (op.reduce != NEURON_ALU_ADD && (accumulates || op.reduce != 0)) {
    return not_allowed(kOp + 2, op.reduce, "activate reduces by add only", 8);
  }
  if (!limits.activate_any_bias) {
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

Violation check_pe(unsigned opcode, const PeOp& op, const Limits& limits) {
  if (op.rows == 3 || op.columns == 3) {
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp, op.rows,
                     "tile rows and columns must be 0 to 2");
  }
  if (op.rows == 2 && op.columns == 2 && !limits.small_tiles) {
    return not_allowed(kOp, op.rows, "a tile of 32 x 32 needs generation 3: not both can be 32");
  }
  // Positions are in units of 32; a tile lies at a multiple of its size.
  const unsigned rows = 4u >> op.rows, columns = 4u >> op.columns;
  if (op.row % rows != 0) {
    return not_allowed(kOp, op.row * 32u, "the row of a tile must be a multiple of its rows");
  }
  if (op.column % columns != 0) {
    return not_allowed(kOp, op.column * 32u,
                       "the column of a tile must be a multiple of its columns");
  }
  const bool scaled = opcode == NEURON_OP_LDWEIGHTS_MX || opcode == NEURON_OP_MATMUL_MX;
  const bool sparse = opcode == NEURON_OP_LDWEIGHTS_SPARSE || opcode == NEURON_OP_MATMUL_SPARSE;
  if ((scaled || sparse) && op.columns != 0) {
    return not_allowed(kOp, op.columns,
                       "mx and sparse products take all columns of the array: tile ROWSx128");
  }
  if (sparse) {
    if (op.mode < kSparsities) return {};
    return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 1, op.mode,
                     "the ratio of a sparse product is mode 0 to 6");
  }
  if (op.mode == NEURON_PE_PLAIN) return {};
  if (op.mode != NEURON_PE_DOUBLE_ROW) {
    return not_allowed(kOp + 1, op.mode, "this device has modes 0 (plain) and 1 (double_row) only");
  }
  if (opcode == NEURON_OP_TRANSPOSE) {
    return not_allowed(kOp + 1, op.mode, "a transpose has mode 0 (plain) only");
  }
  if (!limits.double_row) {
    return violation(NEURON_FAULT_WRONG_GENERATION, kOp + 1, op.mode,
                     "mode 1 (double_row) needs generation 3");
  }
  if (op.columns != 0) {
    return not_allowed(kOp, op.columns, "double_row takes all columns of the array: tile ROWSx128");
  }
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

// Operation words of Pool.
Violation check_pool(const Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_AFFINE_SELECT:
      if (!is_comparison_alu(i.vector.op0)) {
        return not_allowed(kOp, i.vector.op0, "affine_select compares: eq, ne, gt, ge, lt or le");
      }
      return check_pattern(i.pattern);
    case NEURON_OP_IOTA:
      return check_pattern(i.pattern);
    case NEURON_OP_PARTITION_REDUCE:
      switch (i.vector.op0) {
        case NEURON_ALU_ADD:
        case NEURON_ALU_AVERAGE:
        case NEURON_ALU_MAX:
        case NEURON_ALU_AND:
        case NEURON_ALU_OR:
          return {};
        default:
          return not_allowed(kOp, i.vector.op0,
                             "partitions are reduced by add, average, max, and, or");
      }
    case NEURON_OP_LOCAL_GATHER:
      if (i.pool.elements > 5) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 1, i.pool.elements,
                         "the elements per index must be 1 to 32: log2 is 0 to 5");
      }
      if (i.pool.count == 0) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 2, 0,
                         "at least one index must be valid");
      }
      return {};
    case NEURON_OP_TOPK:
      if (i.pool.count == 0 || i.pool.count > 32767) {
        return violation(NEURON_FAULT_ILLEGAL_FIELD, kOp + 2, i.pool.count,
                         "topk finds 1 to 32767 elements");
      }
      return {};
    default:
      return {};
  }
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

bool is_comparison_alu(unsigned op) { return op >= NEURON_ALU_EQ && op <= NEURON_ALU_LE; }

bool is_float_dtype(unsigned dtype) {
  if (dtype == NEURON_DTYPE_F8E4FN) return true;
  return dtype != NEURON_DTYPE_NONE && dtype <= NEURON_DTYPE_TF32 && !is_integer_dtype(dtype);
}

bool is_packed_dtype(unsigned dtype) {
  return dtype >= NEURON_DTYPE_F4X4 && dtype <= NEURON_DTYPE_F8E4FNX4;
}

bool is_int64_dtype(unsigned dtype) {
  return dtype == NEURON_DTYPE_I64 || dtype == NEURON_DTYPE_U64;
}

bool is_integer_alu(unsigned op) {
  switch (op) {
    case NEURON_ALU_ADD:
    case NEURON_ALU_SUB:
    case NEURON_ALU_MUL:
    case NEURON_ALU_MAX:
    case NEURON_ALU_MIN:
    case NEURON_ALU_ABS_MAX:
    case NEURON_ALU_ABS_MIN:
      return true;
    default:
      return is_comparison_alu(op);
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
      return check_pe(i.opcode, i.pe, limits);
    case 3:
      return check_vector(i, engine, limits);
    case 4:
      return check_activate(i, limits);
    case 5:
      return check_pool(i);
    default:
      return {};
  }
}

}  // namespace neuron::isa
