// SPDX-License-Identifier: Apache-2.0
// Which instructions TypeValues executes with each type that the checks accept, comparing values,
// and why the others are not among them. The test and the page coverage.md both ask this.
#ifndef TESTS_UNIT_DRIVER_ISA_VALUE_CHECKS_H
#define TESTS_UNIT_DRIVER_ISA_VALUE_CHECKS_H

#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa::testing {

// Null: the values of every type are compared.
inline const char* why_not_compared(const Sample& sample) {
  const Instruction& i = sample.instruction;
  if (meets_other_core(i.opcode)) {
    return "needs two cores: CoreMeeting compares the values of u32 tiles, and no other type is "
           "executed";
  }
  if (i.group() < 2) return "has no operand with a type";
  if (i.group() == 6) {
    return "moves by DMA: ComputeMachine.RandomComputePacketsGiveTheBytesOfAPlainInterpreter "
           "compares pairs of types";
  }
  switch (i.opcode) {
    case NEURON_OP_LDWEIGHTS:
      return "matmul shows what it loaded, with every type";
    case NEURON_OP_LOAD_TABLE:
    case NEURON_OP_CUSTOM_OPERATOR:
      return "has no operand with a type";
    case NEURON_OP_LDWEIGHTS_MX:
    case NEURON_OP_MATMUL_MX:
      return "BlockScaled compares products of all pairs of formats";
    case NEURON_OP_LDWEIGHTS_SPARSE:
    case NEURON_OP_MATMUL_SPARSE:
      return "Sparse compares products of every ratio and type";
    case NEURON_OP_QUANTIZE_MX:
      return "rounds to blocks: Quantize compares every format";
    case NEURON_OP_RAND_SET_STATE:
    case NEURON_OP_RAND_GET_STATE:
      return "has one type: the tests named here compare its values";
    case NEURON_OP_RAND2:
    case NEURON_OP_RNG:
    case NEURON_OP_DROPOUT:
    case NEURON_OP_SET_RNG_SEED:
      return "random bits: VectorRandom tests what is promised of them";
    case NEURON_OP_READ_ACC:
      return "reads what the instruction before left: Compute compares it";
    case NEURON_OP_CUSTOM:
      return "the host's function decides";
    default:
      return nullptr;
  }
}

}  // namespace neuron::isa::testing

#endif
