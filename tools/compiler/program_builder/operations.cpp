// SPDX-License-Identifier: Apache-2.0
// The operations on PE and Activation, and those that several engines share.
#include <bit>

#include "driver/base/format.h"
#include "tools/compiler/program_builder/engine_operations.h"

namespace neuron::builder {

void EngineOperations::load_weights(const TileAccess& stationary) {
  weights_ = stationary;
  emit(Draft(NEURON_OP_LDWEIGHTS, NEURON_ENGINE_PE).from(stationary));
}

void EngineOperations::multiply(const TileAccess& psum, const TileAccess& moving, bool accumulate,
                                bool swap) {
  Draft draft(NEURON_OP_MATMUL, NEURON_ENGINE_PE);
  draft.to(psum).from(moving);
  if (draft.wrong.empty() && (!weights_.present() || moving.parts != weights_.parts ||
                              psum.parts != weights_.elements())) {
    draft.wrong = base::format(
        "matmul of [{}, {}] (stationary) and [{}, {}] (moving) into [{}, {}]; expected [K, M], "
        "[K, N] and [M, N]",
        weights_.parts, weights_.elements(), moving.parts, moving.elements(), psum.parts,
        psum.elements());
  }
  draft.i.pe.accumulate = accumulate;
  draft.i.pe.swap = swap;
  emit(std::move(draft));
}

void EngineOperations::matmul(const TileAccess& psum, const TileAccess& stationary,
                              const TileAccess& moving, bool accumulate) {
  load_weights(stationary);
  multiply(psum, moving, accumulate);
}

void EngineOperations::transpose(const TileAccess& psum, const TileAccess& from) {
  emit(Draft(NEURON_OP_TRANSPOSE, NEURON_ENGINE_PE).to(psum).from(from));
}

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
                                          const TileAccess& from, uint8_t op, uint32_t bits) {
  Draft draft(NEURON_OP_TENSOR_SCALAR, static_cast<unsigned>(engine));
  draft.to(to).from(from).immediate0(bits, NEURON_DTYPE_U32);
  draft.i.vector.op0 = op;
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

void EngineOperations::read_accumulator(Engine engine, const TileAccess& to, bool negate) {
  Draft draft(NEURON_OP_READ_ACC, static_cast<unsigned>(engine));
  draft.to(to);
  draft.i.vector.negate = negate;
  emit(std::move(draft));
}

}  // namespace neuron::builder
