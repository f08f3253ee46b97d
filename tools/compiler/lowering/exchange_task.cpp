// SPDX-License-Identifier: Apache-2.0
// Exchanges between ranks: collectives of the program, between temporaries, whose addresses the
// ranks know of each other.
#include "tools/compiler/lowering/lanes.h"
#include "tools/compiler/lowering/tasks.h"

namespace neuron::lowering {
namespace {

using graph::Function;

ccom_operation_t operation_of(graph::Exchange::Kind kind) {
  switch (kind) {
    case graph::Exchange::Kind::kAllReduce:
      return CCOM_ALL_REDUCE;
    case graph::Exchange::Kind::kAllGather:
      return CCOM_ALL_GATHER;
    case graph::Exchange::Kind::kReduceScatter:
      return CCOM_REDUCE_SCATTER;
    case graph::Exchange::Kind::kAllToAll:
      return CCOM_ALL_TO_ALL;
    default:
      return CCOM_PERMUTE;
  }
}

ccom_reduction_t reduction_of(Function function) {
  switch (function) {
    case Function::kMultiply:
      return CCOM_PRODUCT;
    case Function::kMaximum:
      return CCOM_MAX;
    case Function::kMinimum:
      return CCOM_MIN;
    default:
      return CCOM_ADD;
  }
}

}  // namespace

void emit_exchange(Workspace& work, Value value) {
  const Node& node = work.node(value);
  const graph::Exchange& exchange = *node.exchange;
  work.program.section(node.origin);
  const Buffer given = work.place(node.operands[0]);
  const auto count = static_cast<uint32_t>(graph::elements_of(work.node(node.operands[0]).shape));
  const auto result = static_cast<uint32_t>(graph::elements_of(node.shape));
  const uint8_t inner = Workspace::dtype_of(node.type);
  // Order and products of whole numbers depend on their sign.
  const bool bits = !graph::is_real(node.type) && graph::is_unsigned(node.type);
  const uint8_t dtype = bits ? static_cast<uint8_t>(NEURON_DTYPE_U32) : inner;
  Buffer from = work.temporary(dtype, count), to = work.temporary(dtype, result);
  work.copy(Workspace::rows(from, 0, 1, count), Workspace::rows(given, 0, 1, count));
  builder::CollectiveOptions options;
  options.reduction = reduction_of(node.function);
  options.groups = exchange.groups;
  options.group_size = static_cast<uint32_t>(exchange.members);
  for (const auto& [source, target] : exchange.pairs) options.pairs.push_back({source, target});
  if (exchange.kind == graph::Exchange::Kind::kPermute) {
    // What nobody sends to stays zeros.
    Workspace::for_pieces(result, [&](uint64_t first, uint32_t parts, uint32_t columns) {
      Lanes lanes(work, parts, columns);
      const bool real = inner == NEURON_DTYPE_F32;
      lanes.store(to, first, real ? lanes.number(0) : lanes.whole_number(0));
    });
  }
  work.program.collective(Engine::kPool, operation_of(exchange.kind), to, from, options);
  to.dtype = inner;
  work.set_place(value, to);
}

}  // namespace neuron::lowering
