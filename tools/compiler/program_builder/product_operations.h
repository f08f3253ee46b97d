// SPDX-License-Identifier: Apache-2.0
//
// The operations of PE: one method for each instruction or pair of them.
// Callers: kernels, through Program. Thread-safe: no. Fails: as Program.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PRODUCT_OPERATIONS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PRODUCT_OPERATIONS_H

#include <cstdint>

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/operations.h"

namespace neuron::builder {

// How PE multiplies. Both halves of a product, load_weights and multiply, have the same.
struct PeOptions {
  bool double_row = false;  // Generation 3: f8 matrices [K, 2, columns]; both rows are summed
  bool onezero_moving = false, onezero_stationary = false;  // Hints: all elements are 0 or 1
  // The tile of the array: multiples of 32, as documented; the whole array.
  uint32_t row = 0, column = 0, rows = NEURON_PE_MAX_K, columns = NEURON_PE_MAX_M;
};

// A matrix of x4 elements with its block scales (hw/isa.h); generation 4.
struct ScaledAccess {
  TileAccess elements, scales;
  uint8_t quarter = 0;  // Of the scale rows

  // The scales that the instruction touches: a small operand's rows are those behind it.
  TileAccess shifted() const;
};

// Compressed weights [K, M] with their positions, u16 [K, M / 4], by a ratio NEURON_SPARSE_*
// (hw/isa.h); generation 3.
struct SparseAccess {
  TileAccess weights, positions;
  uint8_t ratio = NEURON_SPARSE_4_OF_16;
};

class ProductOperations : protected virtual Operations {
 public:
  // PE: psum (+)= transpose(stationary) * moving.
  void load_weights(const TileAccess& stationary, const PeOptions& options = {});
  void multiply(const TileAccess& psum, const TileAccess& moving, bool accumulate, bool swap = true,
                const PeOptions& options = {});
  void matmul(const TileAccess& psum, const TileAccess& stationary, const TileAccess& moving,
              bool accumulate = false, const PeOptions& options = {});
  // The same of block-scaled matrices; the stationary one is loaded. Of the options, the tile
  // counts.
  void matmul_mx(const TileAccess& psum, const ScaledAccess& stationary, const ScaledAccess& moving,
                 bool accumulate = false, const PeOptions& options = {});
  void load_weights_mx(const ScaledAccess& stationary, const PeOptions& options = {});
  void multiply_mx(const TileAccess& psum, const ScaledAccess& moving, bool accumulate,
                   bool swap = true, const PeOptions& options = {});
  void transpose(const TileAccess& psum, const TileAccess& from, const PeOptions& options = {});
  // moving: [K, slots, N].
  void matmul_sparse(const TileAccess& psum, const SparseAccess& stationary,
                     const TileAccess& moving, bool accumulate = false);

 protected:
  ~ProductOperations() = default;

 private:
  TileAccess weights_;  // Loaded last, to check the shape of the next matmul
};

}  // namespace neuron::builder

#endif
