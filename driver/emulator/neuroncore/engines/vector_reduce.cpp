// SPDX-License-Identifier: Apache-2.0
// tensor_reduce: the trailing dimensions of each partition become one element.
#include <algorithm>
#include <array>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/row_access.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/alu_rows.h"

namespace neuron::core {
namespace {

// Short groups, as many as fit the scratch rows at once: each is a row of theirs.
void reduce_short_groups(UnitContext& context, const isa::Instruction& i, const OperandView& a,
                         const OperandView& dst, uint64_t group) {
  const unsigned op = i.vector.reduce;
  const uint64_t together = kBlockElements / group;
  float* totals = context.scratch.b.data();
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    for (uint64_t e = 0; e < dst.elements(); e += together) {
      const size_t count = std::min(together, dst.elements() - e);
      const float* x = a.load_or_map(p, e * group, count * group, context.scratch.a.data());
      std::fill_n(totals, count, numerics::reduce_identity(op));
      numerics::reduce_rows(op, x, static_cast<ptrdiff_t>(group), count, group, totals,
                            context.subnormals);
      if (i.vector.negate) {
        numerics::alu_scalar(NEURON_ALU_SUB, totals, 0.0f, true, totals, count, context.subnormals);
      }
      store_block(context, dst, i.dst, {p, 1, e, count}, totals);
    }
  }
}

// `group` neighbouring elements of the source stream become one of the destination.
Fault reduce_groups(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const unsigned op = i.vector.reduce;
  uint64_t group = 1;
  for (unsigned d = 0; d < i.vector.axes && d < i.src0.ndim; ++d) group *= i.src0.size[d];
  const bool bits = numerics::alu_is_bitwise(op);
  if (!bits && !numerics::alu_is_reducible(op)) return not_allowed(op);
  const bool one_by_one = dst.clobbers(a);
  if (!bits && !one_by_one && op != NEURON_ALU_SUB && group <= kBlockElements) {
    reduce_short_groups(context, i, a, dst, group);
    return {};
  }
  Scratch& s = context.scratch;
  const auto finish = [&](unsigned p, uint64_t element, float* value) {
    if (i.vector.negate) {
      numerics::alu_scalar(NEURON_ALU_SUB, value, 0.0f, true, value, 1, context.subnormals);
    }
    store_block(context, dst, i.dst, {p, 1, element, 1}, value);
  };
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    for (uint64_t e = 0; e < dst.elements(); ++e) {
      const uint64_t first = e * group;
      if (bits) {
        std::byte* x = bytes_of(s.a.data());
        std::byte* total = bytes_of(s.b.data());
        a.load_raw(p, first, 1, total);
        for (uint64_t at = 1; at < group; ++at) {
          a.load_raw(p, first + at, 1, x);
          numerics::alu_bits(op, total, x, total, dst.element_bytes(), 1);
        }
        dst.store_raw(p, e, 1, total);
        continue;
      }
      float total = numerics::reduce_identity(op);
      uint64_t at = 0;
      if (op == NEURON_ALU_SUB) {  // x0 - x1 - x2 ...
        total = *a.load_or_map(p, first, 1, s.a.data());
        at = 1;
      }
      while (at < group) {
        const size_t piece = one_by_one ? 1 : std::min<uint64_t>(group - at, kPiece);
        const float* x = a.load_or_map(p, first + at, piece, s.a.data());
        total = numerics::reduce(op, x, piece, total, context.subnormals);
        at += piece;
      }
      finish(p, e, &total);
    }
  }
  return {};
}

// One reduction over the whole of each partition, many partitions at a time.
Fault reduce_whole_rows(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const unsigned op = i.vector.reduce;
  const size_t n = a.elements();
  std::array<float, NEURON_PARTITIONS> totals;
  totals.fill(numerics::reduce_identity(op));
  if (i.src0.dtype == NEURON_DTYPE_F32 && a.contiguous()) {
    numerics::reduce_rows(op, reinterpret_cast<const float*>(a.row(0)),
                          static_cast<ptrdiff_t>(a.row_stride() / sizeof(float)), a.partitions(), n,
                          totals.data(), context.subnormals);
  } else if ((op == NEURON_ALU_MAX || op == NEURON_ALU_MIN) && is_row(a) &&
             context.subnormals == numerics::Subnormals::kKeep) {
    numerics::extreme_bf16_rows(op, source_rows(a), a.partitions(), n, totals.data());
  } else {
    for_blocks(
        a.partitions(), n, false,
        [&](const Block& block) {
          float* x = context.scratch.a.data();
          for (unsigned r = 0; r < block.rows; ++r) {
            a.load(block.part + r, block.first, block.count, x + r * block.count);
          }
          numerics::reduce_rows(op, x, static_cast<ptrdiff_t>(block.count), block.rows, block.count,
                                totals.data() + block.part, context.subnormals);
        },
        op == NEURON_ALU_MAX || op == NEURON_ALU_MIN ? kRun : kSummedRun);
  }
  if (i.vector.negate) {
    numerics::alu_scalar(NEURON_ALU_SUB, totals.data(), 0.0f, true, totals.data(), a.partitions(),
                         context.subnormals);
  }
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, 1}, totals.data());
  return {};
}

}  // namespace

Fault tensor_reduce(UnitContext& context, const isa::Instruction& i) {
  const bool whole = i.vector.axes >= i.src0.ndim && i.vector.reduce != NEURON_ALU_SUB &&
                     numerics::alu_is_reducible(i.vector.reduce) &&
                     !numerics::alu_is_bitwise(i.vector.reduce);
  return whole ? reduce_whole_rows(context, i) : reduce_groups(context, i);
}

}  // namespace neuron::core
