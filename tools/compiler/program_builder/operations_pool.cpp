// SPDX-License-Identifier: Apache-2.0
// The operations that Pool alone executes.
#include "tools/compiler/program_builder/engine_operations.h"

namespace neuron::builder {
namespace {

Draft pool(uint16_t opcode) { return {opcode, NEURON_ENGINE_POOL}; }

isa::Pattern pattern_of(const IndexPattern& index) {
  isa::Pattern pattern;
  for (size_t d = 0; d < index.size.size() && d < pattern.size.size(); ++d) {
    pattern.size[d] = index.size[d];
    pattern.step[d] = index.step[d];
  }
  return pattern;
}

}  // namespace

void EngineOperations::iota(const TileAccess& to, const IndexPattern& index) {
  Draft draft = pool(NEURON_OP_IOTA);
  draft.to(to).immediate0(static_cast<uint32_t>(index.offset), NEURON_DTYPE_I32);
  draft.i.pattern = pattern_of(index);
  draft.i.vector.imm = static_cast<uint32_t>(index.of_partition);
  emit(std::move(draft));
}

void EngineOperations::affine_select(const TileAccess& to, const TileAccess& from,
                                     const IndexPattern& index, uint8_t compare,
                                     const ScalarArgument& otherwise) {
  Draft draft = pool(NEURON_OP_AFFINE_SELECT);
  draft.to(to).from(from).scalar0(otherwise);
  draft.immediate1(static_cast<uint32_t>(index.offset), NEURON_DTYPE_I32);
  draft.i.pattern = pattern_of(index);
  draft.i.vector.op0 = compare;
  draft.i.vector.imm = static_cast<uint32_t>(index.of_partition);
  emit(std::move(draft));
}

void EngineOperations::partition_reduce(const TileAccess& to, uint8_t op, const TileAccess& from) {
  Draft draft = pool(NEURON_OP_PARTITION_REDUCE);
  draft.to(to).from(from);
  draft.i.vector.op0 = op;
  emit(std::move(draft));
}

void EngineOperations::local_gather(const TileAccess& to, const TileAccess& from,
                                    const TileAccess& index, uint8_t log2_elements,
                                    uint16_t valid) {
  Draft draft = pool(NEURON_OP_LOCAL_GATHER);
  draft.to(to).from(from).second(index);
  draft.i.pool.elements = log2_elements;
  draft.i.pool.count = valid;
  emit(std::move(draft));
}

void EngineOperations::n_gather(const TileAccess& to, const TileAccess& from,
                                const TileAccess& index) {
  emit(pool(NEURON_OP_N_GATHER).to(to).from(from).second(index));
}

void EngineOperations::sequence_bounds(const TileAccess& to, const TileAccess& from) {
  emit(pool(NEURON_OP_SEQUENCE_BOUNDS).to(to).from(from));
}

void EngineOperations::nonzero_with_count(const TileAccess& to, const TileAccess& from,
                                          int32_t offset, int32_t padding) {
  Draft draft = pool(NEURON_OP_NONZERO_WITH_COUNT);
  draft.to(to).from(from).immediate0(static_cast<uint32_t>(offset), NEURON_DTYPE_I32);
  draft.i.vector.imm = static_cast<uint32_t>(padding);
  emit(std::move(draft));
}

void EngineOperations::topk(const TileAccess& values, const TileAccess& indices,
                            const TileAccess& from, uint16_t k, uint32_t n) {
  Draft draft = pool(NEURON_OP_TOPK);
  draft.to(values).from(from).second(indices).also_writes(indices);
  draft.i.pool.count = k;
  draft.i.vector.imm = n;
  emit(std::move(draft));
}

void EngineOperations::custom(uint32_t number, const TileAccess& to, const TileAccess& a,
                              const TileAccess& b) {
  Draft draft = pool(NEURON_OP_CUSTOM);
  draft.to(to).from(a);
  if (b.present()) draft.second(b);
  draft.i.vector.imm = number;
  emit(std::move(draft));
}

}  // namespace neuron::builder
