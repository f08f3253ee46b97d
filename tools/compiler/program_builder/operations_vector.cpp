// SPDX-License-Identifier: Apache-2.0
// The operations that DVE alone executes, and tensor_reduce, which Pool executes, too.
#include <algorithm>
#include <bit>

#include "driver/isa/rules.h"
#include "tools/compiler/program_builder/engine_operations.h"

namespace neuron::builder {
namespace {

Draft dve(uint16_t opcode) { return {opcode, NEURON_ENGINE_DVE}; }

}  // namespace

void EngineOperations::scalar_tensor_tensor(const TileAccess& to, const TileAccess& a, uint8_t op0,
                                            const ScalarArgument& s, uint8_t op1,
                                            const TileAccess& b, bool reverse1) {
  Draft draft = dve(NEURON_OP_SCALAR_TENSOR_TENSOR);
  draft.to(to).from(a).second(b).scalar0(s);
  draft.i.vector.op0 = op0;
  draft.i.vector.op1 = op1;
  draft.i.vector.rev0 = s.reversed;
  draft.i.vector.rev1 = reverse1;
  emit(std::move(draft));
}

void EngineOperations::tensor_scalar_reduce(const TileAccess& to, const TileAccess& from,
                                            uint8_t op, const ScalarArgument& s, uint8_t reduce,
                                            uint8_t command, const ScalarArgument& initial) {
  Draft draft = dve(NEURON_OP_TENSOR_SCALAR_REDUCE);
  draft.to(to).from(from).scalar0(s).scalar1(initial);
  draft.i.vector.op0 = op;
  draft.i.vector.reduce = reduce;
  draft.i.vector.reduce_command = command;
  emit(std::move(draft));
}

void EngineOperations::tensor_scalar_cumulative(const TileAccess& to, const TileAccess& from,
                                                uint8_t op0, const ScalarArgument& s, uint8_t op1,
                                                uint8_t command, const ScalarArgument& initial) {
  Draft draft = dve(NEURON_OP_TENSOR_SCALAR_CUMULATIVE);
  draft.to(to).from(from).scalar0(s).scalar1(initial);
  draft.i.vector.op0 = op0;
  draft.i.vector.op1 = op1;
  draft.i.vector.rev0 = s.reversed;
  draft.i.vector.reduce_command = command;
  emit(std::move(draft));
}

void EngineOperations::tensor_reduce(const TileAccess& to, uint8_t op, const TileAccess& from,
                                     uint8_t axes, bool negate, Engine engine) {
  // Pool alone computes on 64-bit integers.
  const bool int64 = isa::is_int64_dtype(from.dtype);
  Draft draft(NEURON_OP_TENSOR_REDUCE, static_cast<unsigned>(int64 ? Engine::kPool : engine));
  draft.to(to).from(from);
  draft.i.vector.reduce = op;
  draft.i.vector.axes = axes;
  draft.i.vector.negate = negate;
  emit(std::move(draft));
}

void EngineOperations::tensor_tensor_scan(const TileAccess& to, const TileAccess& a, uint8_t op0,
                                          uint8_t op1, const TileAccess& b,
                                          const ScalarArgument& initial, bool reverse0,
                                          bool reverse1) {
  Draft draft = dve(NEURON_OP_TENSOR_TENSOR_SCAN);
  draft.to(to).from(a).second(b).scalar0(initial);
  draft.i.vector.op0 = op0;
  draft.i.vector.op1 = op1;
  draft.i.vector.rev0 = reverse0;
  draft.i.vector.rev1 = reverse1;
  emit(std::move(draft));
}

void EngineOperations::reciprocal(const TileAccess& to, const TileAccess& from) {
  emit(dve(NEURON_OP_RECIPROCAL).to(to).from(from));
}

// Elements that the predicate does not select stay, so the destination counts as read.
void EngineOperations::copy_predicated(const TileAccess& to, const TileAccess& from,
                                       const TileAccess& predicate, bool invert) {
  Draft draft = dve(NEURON_OP_COPY_PREDICATED);
  draft.to(to).from(from).second(predicate).also_reads(to);
  draft.i.vector.invert = invert;
  emit(std::move(draft));
}

void EngineOperations::fill_predicated(const TileAccess& to, const ScalarArgument& value,
                                       const TileAccess& predicate, bool invert) {
  Draft draft = dve(NEURON_OP_COPY_PREDICATED);
  draft.to(to).second(predicate).scalar0(value).also_reads(to);
  draft.i.vector.invert = invert;
  emit(std::move(draft));
}

void EngineOperations::select_reduce(const TileAccess& to, const TileAccess& from,
                                     const TileAccess& predicate, const ScalarArgument& otherwise,
                                     bool invert, uint8_t reduce) {
  Draft draft = dve(NEURON_OP_SELECT_REDUCE);
  draft.to(to).from(from).second(predicate).scalar0(otherwise);
  draft.i.vector.invert = invert;
  draft.i.vector.reduce = reduce == NEURON_REDUCE_IDLE ? NEURON_ALU_BYPASS : NEURON_ALU_MAX;
  draft.i.vector.reduce_command = reduce;
  emit(std::move(draft));
}

void EngineOperations::range_select(const TileAccess& to, const TileAccess& from, uint8_t op0,
                                    const ScalarArgument& bound0, uint8_t op1,
                                    const ScalarArgument& bound1, float start, uint8_t reduce) {
  Draft draft = dve(NEURON_OP_RANGE_SELECT);
  draft.to(to).from(from).scalar0(bound0).scalar1(bound1);
  draft.i.vector.op0 = op0;
  draft.i.vector.op1 = op1;
  draft.i.vector.imm = std::bit_cast<uint32_t>(start);
  draft.i.vector.reduce = reduce == NEURON_REDUCE_IDLE ? NEURON_ALU_BYPASS : NEURON_ALU_MAX;
  draft.i.vector.reduce_command = reduce;
  emit(std::move(draft));
}

void EngineOperations::exponential(const TileAccess& to, const TileAccess& from,
                                   const ScalarArgument& maximum, uint8_t reduce,
                                   const ScalarArgument& initial) {
  Draft draft = dve(NEURON_OP_EXPONENTIAL);
  draft.to(to).from(from).scalar0(maximum).scalar1(initial);
  draft.i.vector.reduce = reduce == NEURON_REDUCE_IDLE ? NEURON_ALU_BYPASS : NEURON_ALU_ADD;
  draft.i.vector.reduce_command = reduce;
  emit(std::move(draft));
}

void EngineOperations::quantize_mx(const ScaledAccess& to, const TileAccess& from) {
  Draft draft = dve(NEURON_OP_QUANTIZE_MX);
  draft.to(to.elements).from(from).second(to.scales).also_writes(to.shifted());
  draft.i.vector.imm = to.quarter;
  emit(std::move(draft));
}

void EngineOperations::bn_stats(const TileAccess& to, const TileAccess& from) {
  emit(dve(NEURON_OP_BN_STATS).to(to).from(from));
}

void EngineOperations::bn_aggr(const TileAccess& to, const TileAccess& from) {
  emit(dve(NEURON_OP_BN_AGGR).to(to).from(from));
}

void EngineOperations::max8(const TileAccess& to, const TileAccess& from) {
  emit(dve(NEURON_OP_MAX8).to(to).from(from));
}

void EngineOperations::find_index8(const TileAccess& to, const TileAccess& from,
                                   const TileAccess& values) {
  emit(dve(NEURON_OP_FIND_INDEX8).to(to).from(from).second(values));
}

void EngineOperations::match_replace8(const TileAccess& to, const TileAccess& from,
                                      const TileAccess& values, float replacement,
                                      const TileAccess& indices) {
  Draft draft = dve(NEURON_OP_MATCH_REPLACE8);
  draft.to(to).from(from);
  // Both pointers name the first of eight columns.
  const auto pointer = [](TileAccess first) {
    first.ndim = 1;
    first.size = {1, 0, 0, 0};
    first.step = {1, 0, 0, 0};
    return first;
  };
  draft.scalar0(pointer(values)).also_reads(values);
  if (indices.present()) draft.scalar1(pointer(indices)).also_writes(indices);
  draft.i.vector.imm = std::bit_cast<uint32_t>(replacement);
  emit(std::move(draft));
}

void EngineOperations::stream_shuffle(const TileAccess& to, const TileAccess& from,
                                      std::span<const uint8_t, NEURON_SHUFFLE_ROWS> mask) {
  Draft draft = dve(NEURON_OP_STREAM_SHUFFLE);
  draft.to(to).from(from);
  if (std::find(mask.begin(), mask.end(), NEURON_SHUFFLE_KEEP) != mask.end()) draft.also_reads(to);
  std::copy(mask.begin(), mask.end(), draft.i.shuffle.begin());
  emit(std::move(draft));
}

void EngineOperations::transpose32(const TileAccess& to, const TileAccess& from) {
  emit(dve(NEURON_OP_TRANSPOSE32).to(to).from(from));
}

}  // namespace neuron::builder
