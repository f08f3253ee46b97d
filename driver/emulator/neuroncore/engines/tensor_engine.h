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
  // Of an instruction whose destination is indirect, before it executes.
  Fault check_scatter(const isa::Instruction& instruction);
  void reset();

 private:
  // Rows and columns of the array that an instruction names.
  struct Geometry {
    uint8_t row = 0, column = 0, rows = 0, columns = 0;  // rows = 0: no weights
    bool operator==(const Geometry&) const = default;
    bool overlaps(const Geometry& other) const;
  };
  // What a matrix consists of: itself, the two rows of double_row, the four codes of mx. The
  // product is the sum of those of its planes, one after the other.
  enum class Form : uint8_t { kPlain, kDoubleRow, kScaled, kSparse };
  static constexpr unsigned kMaxPlanes = NEURON_MX_CODES;
  static unsigned planes_of(Form form, unsigned mode);
  static Form form_of(const isa::Instruction& instruction);

  struct Weights {
    Geometry at;
    Form form = Form::kPlain;
    uint8_t mode = 0;  // op.pe mode; the ratio of sparse weights
    uint8_t dtype = NEURON_DTYPE_NONE;
    uint8_t start = 0;  // the partition where they were loaded from
    std::array<std::unique_ptr<numerics::Stationary>, kMaxPlanes> planes;  // made when needed
  };
  struct Tile {
    Weights active, shadow;
    bool shadow_fresh = false;  // loaded since the last swap
  };
  static Geometry geometry_of(const isa::PeOp& op);
  // The tile that starts at the same place as `at`.
  Tile& tile_at(const Geometry& at);

  Fault load_weights(UnitContext& context, const isa::Instruction& instruction);
  Fault multiply(UnitContext& context, const isa::Instruction& instruction);
  Fault transpose(UnitContext& context, const isa::Instruction& instruction);

  // Columns of a matrix that are gathered at a time: from a pattern that is not a single run per
  // partition, from codes and scales, and results on their way to such a pattern or to bf16.
  static constexpr size_t kColumns = NEURON_PE_MAX_N;
  struct Gathered {
    alignas(64) float rows[NEURON_PE_MAX_K * kColumns];
    alignas(64) float result[NEURON_PE_MAX_M * kColumns];
    alignas(64) uint16_t scaled[NEURON_PE_MAX_K * kColumns];  // bf16
    alignas(64) std::byte packed[4 * kColumns];
    alignas(64) std::byte scales[kColumns];
  };
  Gathered& gathered();
  // Columns [first, first + n) of a plane of the matrix that is src0. The view lasts until the next
  // call.
  numerics::RowView plane_rows(UnitContext& context, const isa::Instruction& i, Form form,
                               unsigned plane, size_t first, size_t n);
  numerics::RowView scaled_rows(UnitContext& context, const isa::Instruction& i, unsigned code,
                                size_t first, size_t n);
  // A plane of sparse weights: what lies in one slot, zeros elsewhere.
  numerics::RowView sparse_rows(UnitContext& context, const isa::Instruction& i, unsigned slot);
  Fault check_positions(UnitContext& context, const isa::Instruction& i);
  Fault check_psum(UnitContext& context, const isa::Instruction& i);
  static void mark_written(UnitContext& context, const isa::Operand& operand,
                           const OperandView& dst);
  void activate(Tile& tile);
  void add_products(UnitContext& context, const isa::Instruction& i, const Weights& weights);

  static constexpr unsigned kGrid = 4;  // tiles start at multiples of 32
  std::array<Tile, kGrid * kGrid> tiles_;
  std::unique_ptr<Gathered> gathered_;
};

}  // namespace neuron::core

#endif
