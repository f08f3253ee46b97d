// SPDX-License-Identifier: Apache-2.0
// The PE: an active and a shadow stationary matrix, multiplication into PSUM, transposition.
//
// ldweights fills the shadow; a matmul with `swap` makes it the active one first. Sizes must agree:
// the moving matrix has K partitions and the destination M. The array can be divided into tiles
// (op.pe row, column, rows, columns), each with weights of its own; loading or activating a tile
// drops the weights of tiles that share cells with it. Every write marks its PSUM cells as written
// by the PE; in strict mode, accumulation onto other cells is a fault.
// Callers: the execution group, in its thread. Owns the weights. Fails: WEIGHTS, PSUM_UNDEFINED.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_TENSOR_ENGINE_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_TENSOR_ENGINE_H

#include <array>
#include <memory>

#include "driver/emulator/neuroncore/engines/unit_context.h"
#include "driver/emulator/numerics/tensor_kernel.h"

namespace neuron::core {

class TensorEngine {
 public:
  TensorEngine();
  Fault execute(UnitContext& context, const isa::Instruction& instruction);
  void reset();

 private:
  // Rows and columns of the array that an instruction names.
  struct Geometry {
    uint8_t row = 0, column = 0, rows = 0, columns = 0;  // rows = 0: no weights
    bool operator==(const Geometry&) const = default;
    bool overlaps(const Geometry& other) const;
  };
  struct Tile {
    Geometry active_at, shadow_at;
    std::unique_ptr<numerics::Stationary> active, shadow;
    bool shadow_fresh = false;  // loaded since the last swap
  };
  static Geometry geometry_of(const isa::PeOp& op);
  // The tile that starts at the same place as `at`.
  Tile& tile_at(const Geometry& at);

  Fault load_weights(UnitContext& context, const isa::Instruction& instruction);
  Fault multiply(UnitContext& context, const isa::Instruction& instruction);
  Fault transpose(UnitContext& context, const isa::Instruction& instruction);

  // A matrix gathered from a pattern that is not a single run per partition.
  struct Gathered {
    alignas(64) float rows[NEURON_PE_MAX_K * NEURON_PE_MAX_N];
    alignas(64) float result[NEURON_PE_MAX_M * NEURON_PE_MAX_N];
  };
  Gathered& gathered();

  static constexpr unsigned kGrid = 4;  // tiles start at multiples of 32
  std::array<Tile, kGrid * kGrid> tiles_;
  std::unique_ptr<Gathered> gathered_;
};

}  // namespace neuron::core

#endif
