// SPDX-License-Identifier: Apache-2.0
// The PE: an active and a shadow stationary matrix, multiplication into PSUM, transposition.
//
// ldweights fills the shadow; a matmul with `swap` makes it the active one first. Sizes must agree:
// the moving matrix has K partitions and the destination M. All writes mark their PSUM cells as the
// PE's; in strict mode an accumulation onto other cells is a fault.
// Callers: the execution group, in its thread. Owns the weights. Fails: WEIGHTS, PSUM_UNDEFINED.
#ifndef DRIVER_EMULATOR_NEURONCORE_TENSOR_ENGINE_H
#define DRIVER_EMULATOR_NEURONCORE_TENSOR_ENGINE_H

#include <memory>

#include "driver/emulator/neuroncore/numerics/tensor_kernel.h"
#include "driver/emulator/neuroncore/unit_context.h"

namespace neuron::core {

class TensorEngine {
 public:
  TensorEngine();
  Fault execute(UnitContext& context, const isa::Instruction& instruction);
  void reset();

 private:
  Fault load_weights(UnitContext& context, const isa::Operand& stationary);
  Fault multiply(UnitContext& context, const isa::Instruction& instruction);
  Fault transpose(UnitContext& context, const isa::Instruction& instruction);

  // A matrix gathered from a pattern that is no single run per partition.
  struct Gathered {
    alignas(64) float rows[NEURON_PE_MAX_K * NEURON_PE_MAX_N];
    alignas(64) float result[NEURON_PE_MAX_M * NEURON_PE_MAX_N];
  };
  Gathered& gathered();

  std::unique_ptr<numerics::Stationary> active_, shadow_;
  bool shadow_fresh_ = false;  // loaded since the last swap
  std::unique_ptr<Gathered> gathered_;
};

}  // namespace neuron::core

#endif
