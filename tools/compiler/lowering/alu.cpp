// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/alu.h"

#include "hw/isa.h"

namespace neuron::lowering {

uint8_t alu_of(graph::Function function) {
  switch (function) {
    case graph::Function::kAdd:
      return NEURON_ALU_ADD;
    case graph::Function::kSubtract:
      return NEURON_ALU_SUB;
    case graph::Function::kMultiply:
      return NEURON_ALU_MUL;
    case graph::Function::kMaximum:
      return NEURON_ALU_MAX;
    case graph::Function::kMinimum:
      return NEURON_ALU_MIN;
    case graph::Function::kPower:
      return NEURON_ALU_POW;
    case graph::Function::kAnd:
      return NEURON_ALU_AND;
    case graph::Function::kOr:
      return NEURON_ALU_OR;
    case graph::Function::kXor:
      return NEURON_ALU_XOR;
    case graph::Function::kShiftLeft:
      return NEURON_ALU_SHL;
    case graph::Function::kShiftRight:
      return NEURON_ALU_SHR_LOGICAL;
    case graph::Function::kEqual:
      return NEURON_ALU_EQ;
    case graph::Function::kNotEqual:
      return NEURON_ALU_NE;
    case graph::Function::kLess:
      return NEURON_ALU_LT;
    case graph::Function::kLessOrEqual:
      return NEURON_ALU_LE;
    case graph::Function::kGreater:
      return NEURON_ALU_GT;
    default:
      return NEURON_ALU_GE;
  }
}

uint8_t order_dtype(graph::Type type) {
  const bool wide = type == graph::Type::kU32 || type == graph::Type::kU64;
  return wide ? NEURON_DTYPE_U32 : NEURON_DTYPE_I32;
}

}  // namespace neuron::lowering
