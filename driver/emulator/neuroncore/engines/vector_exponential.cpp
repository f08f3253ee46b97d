// SPDX-License-Identifier: Apache-2.0
// exponential: exp(x - maximum) as softmax needs it, with the sum in the accumulators.
#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/activation.h"
#include "driver/emulator/numerics/alu.h"

namespace neuron::core {

Fault exponential(UnitContext& context, const isa::Instruction& i) {
  const isa::VectorOp& op = i.vector;
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const bool sums =
      prepare_accumulator(context, i.dst, op.reduce_command, NEURON_ALU_ADD, i.scalar1);
  float* lanes = context.accumulator.data() + i.dst.start;
  Scratch& s = context.scratch;
  for_blocks(
      dst.partitions(), dst.elements(), dst.clobbers(source),
      [&](const Block& block) {
        const float* x = load_block(source, block, s.a.data());
        if (i.scalar0.present()) {
          scalar_step(context, NEURON_ALU_SUB, i.scalar0, false, block, x, s.c.data());
          x = s.c.data();
        }
        numerics::activate(NEURON_ACT_EXP, x, s.c.data(), block.size(), 0.0f, context.subnormals);
        if (sums) {
          numerics::reduce_rows(NEURON_ALU_ADD, s.c.data(), static_cast<ptrdiff_t>(block.count),
                                block.rows, block.count, lanes + block.part, context.subnormals);
        }
        store_block(context, dst, i.dst, block, s.c.data());
      },
      sums ? kSummedRun : kRun);
  if (op.reduce_command == NEURON_REDUCE_IDLE) forget_accumulator(context, i.dst);
  return {};
}

}  // namespace neuron::core
