// SPDX-License-Identifier: Apache-2.0
// select_reduce and range_select: elements are kept or replaced, and the accumulators may take the
// maximum of the result, in fp32, before it is rounded to the destination's type.
#include <cstring>
#include <limits>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/alu.h"

namespace neuron::core {
namespace {

// compute(block, values): the results of a block, in fp32. They are accumulated and stored.
template <class Compute>
void reduce_and_store(UnitContext& context, const isa::Instruction& i, bool one_by_one,
                      Compute&& compute) {
  const isa::VectorOp& op = i.vector;
  const OperandView dst(context.memory, i.dst);
  const bool takes =
      prepare_accumulator(context, i.dst, op.reduce_command, NEURON_ALU_MAX, isa::Scalar());
  float* lanes = context.accumulator.data() + i.dst.start;
  float* out = context.scratch.c.data();
  for_blocks(
      dst.partitions(), dst.elements(), one_by_one,
      [&](const Block& block) {
        compute(block, out);
        if (takes) {
          numerics::reduce_rows(NEURON_ALU_MAX, out, static_cast<ptrdiff_t>(block.count),
                                block.rows, block.count, lanes + block.part, context.subnormals);
        }
        store_block(context, dst, i.dst, block, out);
      },
      takes ? kSummedRun : kRun);
  if (op.reduce_command == NEURON_REDUCE_IDLE) forget_accumulator(context, i.dst);
}

bool holds(unsigned op, float x, float bound) {
  switch (op) {
    case NEURON_ALU_EQ:
      return x == bound;
    case NEURON_ALU_GT:
      return x > bound;
    case NEURON_ALU_GE:
      return x >= bound;
    case NEURON_ALU_LT:
      return x < bound;
    default:
      return x <= bound;
  }
}

}  // namespace

Fault select_reduce(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView predicate(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  const bool halves = predicate.element_bytes() == 2;
  std::byte* mask = bytes_of(context.scratch.b.data());
  float* others = context.scratch.d.data();
  const bool one_by_one = dst.clobbers(source) || dst.clobbers(predicate);
  reduce_and_store(context, i, one_by_one, [&](const Block& block, float* out) {
    const float* x = load_block(source, block, context.scratch.a.data());
    load_raw_block(predicate, block, mask);
    expand_scalar(context, i.scalar0, block.part, block.rows, block.count, others);
    for (size_t e = 0; e < block.size(); ++e) {
      uint16_t value = static_cast<uint8_t>(mask[e]);
      if (halves) std::memcpy(&value, mask + 2 * e, 2);
      out[e] = (value != 0) != i.vector.invert ? x[e] : others[e];
    }
  });
  return {};
}

Fault range_select(UnitContext& context, const isa::Instruction& i) {
  constexpr float kOther = std::numeric_limits<float>::lowest();
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const isa::VectorOp& op = i.vector;
  float first = 0;
  std::memcpy(&first, &op.imm, sizeof(first));
  reduce_and_store(context, i, dst.clobbers(source), [&](const Block& block, float* out) {
    const float* x = load_block(source, block, context.scratch.a.data());
    for (unsigned r = 0; r < block.rows; ++r) {
      float bounds[2];
      expand_scalar(context, i.scalar0, block.part + r, 1, 1, bounds);
      expand_scalar(context, i.scalar1, block.part + r, 1, 1, bounds + 1);
      for (size_t e = 0; e < block.count; ++e) {
        const float place = first + static_cast<float>(block.first + e);
        const size_t at = r * block.count + e;
        const bool inside = holds(op.op0, place, bounds[0]) && holds(op.op1, place, bounds[1]);
        out[at] = inside ? x[at] : kOther;
      }
    }
  });
  return {};
}

}  // namespace neuron::core
