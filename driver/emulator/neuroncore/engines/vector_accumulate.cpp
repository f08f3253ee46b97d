// SPDX-License-Identifier: Apache-2.0
// The reduce registers of Vector: one fp32 accumulator per lane.
#include <algorithm>
#include <cmath>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/alu.h"

namespace neuron::core {

bool prepare_accumulator(UnitContext& context, const isa::Operand& dst, unsigned command,
                         unsigned operation, const isa::Scalar& load) {
  float* lanes = context.accumulator.data() + dst.start;
  switch (command) {
    case NEURON_REDUCE_RESET:
    case NEURON_REDUCE_RESET_ACCUMULATE:
      std::fill_n(lanes, dst.parts, numerics::reduce_identity(operation));
      break;
    case NEURON_REDUCE_LOAD_ACCUMULATE:
      if (load.present()) {
        expand_scalar(context, load, 0, dst.parts, 1, lanes);
      } else {
        std::fill_n(lanes, dst.parts, numerics::reduce_identity(operation));
      }
      break;
    default:
      break;
  }
  return command >= NEURON_REDUCE_ACCUMULATE;
}

void forget_accumulator(UnitContext& context, const isa::Operand& dst) {
  std::fill_n(context.accumulator.begin() + dst.start, dst.parts, NAN);
}

Fault tensor_scalar_reduce(UnitContext& context, const isa::Instruction& i) {
  const isa::VectorOp& op = i.vector;
  if (op.op0 != NEURON_ALU_BYPASS && !numerics::alu_is_arithmetic(op.op0)) {
    return not_allowed(op.op0);
  }
  if (op.reduce_command >= NEURON_REDUCE_ACCUMULATE && !numerics::alu_is_reducible(op.reduce)) {
    return not_allowed(op.reduce);
  }
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const bool sums = prepare_accumulator(context, i.dst, op.reduce_command, op.reduce, i.scalar1);
  float* lanes = context.accumulator.data() + i.dst.start;
  Scratch& s = context.scratch;
  for_blocks(
      dst.partitions(), dst.elements(), dst.clobbers(a),
      [&](const Block& block) {
        const float* x = load_block(a, block, s.a.data());
        scalar_step(context, op.op0, i.scalar0, op.rev0, block, x, s.c.data());
        if (sums) {
          numerics::reduce_rows(op.reduce, s.c.data(), static_cast<ptrdiff_t>(block.count),
                                block.rows, block.count, lanes + block.part, context.subnormals);
        }
        store_block(context, dst, i.dst, block, s.c.data());
      },
      sums ? kSummedRun : kRun);
  if (op.reduce_command == NEURON_REDUCE_IDLE) forget_accumulator(context, i.dst);
  return {};
}

Fault read_accumulator(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  float* values = context.scratch.a.data();
  std::copy_n(context.accumulator.begin() + i.dst.start, dst.partitions(), values);
  if (i.vector.negate) {
    numerics::alu_scalar(NEURON_ALU_SUB, values, 0.0f, true, values, dst.partitions(),
                         context.subnormals);
  }
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, 1}, values);
  return {};
}

}  // namespace neuron::core
