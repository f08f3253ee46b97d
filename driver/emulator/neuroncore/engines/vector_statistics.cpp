// SPDX-License-Identifier: Apache-2.0
// bn_stats and bn_aggr: mean and variance of each partition, in pieces that can be combined.
#include <algorithm>
#include <vector>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/row_access.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/statistics.h"

namespace neuron::core {
namespace {

Fault wrong_count(uint64_t found) {
  return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0,
                    static_cast<uint32_t>(std::min<uint64_t>(found, 0xFFFFFFFF)),
                    NEURON_INST_SRC0 + 8);
}

}  // namespace

Fault bn_stats(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const uint64_t n = source.elements();
  if (n > 512) return wrong_count(n);
  float* results = context.scratch.b.data();
  const bool done =
      source.dtype() == NEURON_DTYPE_BF16 && is_row(source) &&
      context.subnormals == numerics::Subnormals::kKeep &&
      numerics::parity_statistics_bf16(source_rows(source), source.partitions(), n, results);
  if (done) {
    store_block(context, dst, i.dst, {0, dst.partitions(), 0, 6}, results);
    return {};
  }
  for_blocks(source.partitions(), n, false, [&](const Block& block) {
    const float* x = load_block(source, block, context.scratch.a.data());
    numerics::parity_statistics_rows(x, static_cast<ptrdiff_t>(n), block.rows, n,
                                     results + 6 * block.part, context.subnormals);
  });
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, 6}, results);
  return {};
}

Fault bn_aggr(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const uint64_t n = source.elements();
  if (n % 3 != 0) return wrong_count(n);
  float* results = context.scratch.b.data();
  std::vector<float> wide(n > kPiece ? n : 0);  // a row of SBUF can hold more than the scratch rows
  float* scratch = n > kPiece ? wide.data() : context.scratch.a.data();
  for (unsigned p = 0; p < source.partitions(); ++p) {
    const float* triples = source.load_or_map(p, 0, n, scratch);
    numerics::combine_statistics(triples, n / 3, results + 2 * p, context.subnormals);
  }
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, 2}, results);
  return {};
}

}  // namespace neuron::core
