// SPDX-License-Identifier: Apache-2.0
// The operations on Activation, and those that several engines share.
#include <bit>

#include "tools/compiler/program_builder/engine_operations.h"

namespace neuron::builder {

void EngineOperations::tensor_tensor(Engine engine, const TileAccess& to, const TileAccess& a,
                                     uint8_t op, const TileAccess& b) {
  Draft draft(NEURON_OP_TENSOR_TENSOR, static_cast<unsigned>(engine));
  draft.to(to).from(a).second(b);
  draft.i.vector.op0 = op;
  emit(std::move(draft));
}

void EngineOperations::tensor_scalar(Engine engine, const TileAccess& to, const TileAccess& from,
                                     uint8_t op0, const ScalarArgument& s0, uint8_t op1,
                                     const ScalarArgument& s1) {
  Draft draft(NEURON_OP_TENSOR_SCALAR, static_cast<unsigned>(engine));
  draft.to(to).from(from).scalar0(s0).scalar1(s1);
  draft.i.vector.op0 = op0;
  draft.i.vector.op1 = op1;
  draft.i.vector.rev0 = s0.reversed;
  draft.i.vector.rev1 = s1.reversed;
  emit(std::move(draft));
}

void EngineOperations::tensor_scalar_bits(Engine engine, const TileAccess& to,
                                          const TileAccess& from, uint8_t op0,
                                          const BitArgument& s0, uint8_t op1,
                                          const BitArgument& s1) {
  Draft draft(NEURON_OP_TENSOR_SCALAR, static_cast<unsigned>(engine));
  draft.to(to).from(from);
  if (s0.is_number) {
    draft.immediate0(s0.bits, NEURON_DTYPE_U32);
  } else if (s0.access.present()) {
    draft.scalar0(s0.access);
  }
  if (s1.is_number) {
    draft.immediate1(s1.bits, NEURON_DTYPE_U32);
  } else if (s1.access.present()) {
    draft.scalar1(s1.access);
  }
  draft.i.vector.op0 = op0;
  draft.i.vector.op1 = op1;
  draft.i.vector.rev0 = s0.reversed;
  draft.i.vector.rev1 = s1.reversed;
  emit(std::move(draft));
}

void EngineOperations::tensor_copy(Engine engine, const TileAccess& to, const TileAccess& from) {
  emit(Draft(NEURON_OP_TENSOR_COPY, static_cast<unsigned>(engine)).to(to).from(from));
}

void EngineOperations::memset(Engine engine, const TileAccess& to, uint32_t bits) {
  Draft draft(NEURON_OP_MEMSET, static_cast<unsigned>(engine));
  draft.to(to);
  draft.i.vector.imm = bits;
  emit(std::move(draft));
}

void EngineOperations::activate(const TileAccess& to, uint8_t function, const TileAccess& from,
                                const ActivateOptions& options) {
  Draft draft(NEURON_OP_ACTIVATE, NEURON_ENGINE_ACTIVATION);
  draft.to(to).from(from).scalar0(options.scale).scalar1(options.bias);
  draft.i.act.function = function;
  draft.i.act.table_set = options.table_set;
  draft.i.act.reduce_command = options.reduce;
  draft.i.act.param = std::bit_cast<uint32_t>(options.parameter);
  if (options.reduce == NEURON_REDUCE_ACCUMULATE ||
      options.reduce == NEURON_REDUCE_RESET_ACCUMULATE) {
    draft.i.act.reduce = NEURON_ALU_ADD;
  }
  emit(std::move(draft));
}

void EngineOperations::activate2(const TileAccess& to, uint8_t function, const TileAccess& from,
                                 const Activate2Options& options) {
  Draft draft(NEURON_OP_ACTIVATE2, NEURON_ENGINE_ACTIVATION);
  draft.to(to).from(from).scalar0(options.s0).scalar1(options.s1);
  draft.i.act.function = function;
  draft.i.act.pre = options.steps;
  draft.i.act.rev0 = options.s0.reversed;
  draft.i.act.rev1 = options.s1.reversed;
  draft.i.act.reduce = options.reduce_op;
  draft.i.act.reduce_command = options.reduce;
  draft.i.act.param = std::bit_cast<uint32_t>(options.parameter);
  emit(std::move(draft));
}

void EngineOperations::read_accumulator(Engine engine, const TileAccess& to, bool negate) {
  Draft draft(NEURON_OP_READ_ACC, static_cast<unsigned>(engine));
  draft.to(to);
  draft.i.vector.negate = negate;
  emit(std::move(draft));
}

}  // namespace neuron::builder
