// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/random_operations.h"

#include <utility>

namespace neuron::builder {
namespace {

Draft dve(uint16_t opcode) { return {opcode, NEURON_ENGINE_DVE}; }

}  // namespace

void RandomOperations::dropout(const TileAccess& to, const TileAccess& from,
                               const ScalarArgument& probability, bool keep) {
  Draft draft = dve(NEURON_OP_DROPOUT);
  draft.to(to).from(from).scalar0(probability);
  draft.i.vector.invert = keep;
  emit(std::move(draft));
}

void RandomOperations::random_bits(const TileAccess& to, Engine engine) {
  emit(Draft(NEURON_OP_RNG, static_cast<unsigned>(engine)).to(to));
}

void RandomOperations::set_random_seed(const TileAccess& seed) {
  emit(dve(NEURON_OP_SET_RNG_SEED).from(seed));
}

void RandomOperations::random_uniform(const TileAccess& to, const ScalarArgument& low,
                                      const ScalarArgument& high) {
  emit(dve(NEURON_OP_RAND2).to(to).scalar0(low).scalar1(high));
}

void RandomOperations::set_random_state(Engine engine, const TileAccess& states) {
  emit(Draft(NEURON_OP_RAND_SET_STATE, static_cast<unsigned>(engine)).from(states));
}

void RandomOperations::get_random_state(Engine engine, const TileAccess& to) {
  emit(Draft(NEURON_OP_RAND_GET_STATE, static_cast<unsigned>(engine)).to(to));
}

}  // namespace neuron::builder
