// SPDX-License-Identifier: Apache-2.0
// Recurrences along the free dimension: tensor_tensor_scan and tensor_scalar_cumulative.
//
// All partitions advance together, a block of columns at a time.
#include <algorithm>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/scan.h"
#include "driver/emulator/numerics/transpose.h"

namespace neuron::core {
namespace {

// The distance between columns of a block.
constexpr size_t kStride = NEURON_PARTITIONS;

// Elements [first, first + count) of all partitions as columns in `out`.
void load_columns(const OperandView& view, const Block& block, float* rows, float* out) {
  for (unsigned r = 0; r < block.rows; ++r) {
    view.load(r, block.first, block.count, rows + r * block.count);
  }
  numerics::transpose(rows, block.count, block.rows, block.count, out, kStride);
}

void store_columns(UnitContext& context, const OperandView& view, const isa::Operand& dst,
                   const Block& block, const float* columns, float* rows) {
  numerics::transpose(columns, kStride, block.count, block.rows, rows, block.count);
  store_block(context, view, dst, block, rows);
}

// Walks blocks of all partitions, or single columns where the destination overlaps a source.
template <class Work>
void for_columns(unsigned parts, uint64_t n, bool one_by_one, Work&& work) {
  const size_t piece = one_by_one ? 1 : std::min<uint64_t>(n, kPiece / kStride);
  for (uint64_t first = 0; first < n; first += piece) {
    work(Block{0, parts, first, std::min<uint64_t>(piece, n - first)});
  }
}

}  // namespace

Fault tensor_tensor_scan(UnitContext& context, const isa::Instruction& i) {
  const isa::VectorOp& op = i.vector;
  for (const unsigned step : {op.op0, op.op1}) {
    if (!numerics::alu_is_arithmetic(step)) return not_allowed(step);
  }
  const OperandView a(context.memory, i.src0);
  const OperandView b(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  const unsigned parts = dst.partitions();
  const numerics::ScanOperations operations{op.op0, op.rev0, op.op1, op.rev1};
  float state[NEURON_PARTITIONS];
  expand_scalar(context, i.scalar0, 0, parts, 1, state);
  Scratch& s = context.scratch;
  const bool one_by_one = dst.clobbers(a) || dst.clobbers(b);
  for_columns(parts, dst.elements(), one_by_one, [&](const Block& block) {
    load_columns(a, block, s.e.data(), s.a.data());
    load_columns(b, block, s.e.data(), s.b.data());
    numerics::scan_columns(operations, s.a.data(), s.b.data(), s.c.data(), kStride, parts,
                           block.count, state, context.subnormals);
    store_columns(context, dst, i.dst, block, s.c.data(), s.e.data());
  });
  return {};
}

Fault tensor_scalar_cumulative(UnitContext& context, const isa::Instruction& i) {
  const isa::VectorOp& op = i.vector;
  if (op.op0 != NEURON_ALU_BYPASS && !numerics::alu_is_arithmetic(op.op0)) {
    return not_allowed(op.op0);
  }
  if (!numerics::alu_is_reducible(op.op1)) return not_allowed(op.op1);
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const unsigned parts = dst.partitions();
  // The destination takes the running value, so an idle command computes it, too, from the
  // identity.
  const bool idle = op.reduce_command == NEURON_REDUCE_IDLE;
  const unsigned command = idle ? unsigned{NEURON_REDUCE_RESET} : op.reduce_command;
  prepare_accumulator(context, i.dst, command, op.op1, i.scalar1);
  float* state = context.accumulator.data() + i.dst.start;
  Scratch& s = context.scratch;
  for_columns(parts, dst.elements(), dst.clobbers(a), [&](const Block& block) {
    for (unsigned r = 0; r < block.rows; ++r) {
      a.load(r, block.first, block.count, s.a.data() + r * block.count);
    }
    scalar_step(context, op.op0, i.scalar0, op.rev0, block, s.a.data(), s.c.data());
    numerics::transpose(s.c.data(), block.count, parts, block.count, s.d.data(), kStride);
    numerics::accumulate_columns(op.op1, s.d.data(), s.d.data(), kStride, parts, block.count, state,
                                 context.subnormals);
    store_columns(context, dst, i.dst, block, s.d.data(), s.e.data());
  });
  if (idle) forget_accumulator(context, i.dst);
  return {};
}

}  // namespace neuron::core
