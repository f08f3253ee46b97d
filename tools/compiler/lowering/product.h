// SPDX-License-Identifier: Apache-2.0
//
// Products with operands and results in SBUF.
// Callers: lower(). Thread-safe: no. Fails: the program of the workspace keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_PRODUCT_H
#define TOOLS_COMPILER_LOWERING_PRODUCT_H

#include "tools/compiler/lowering/tasks.h"

namespace neuron::lowering {

// Maps that read the sums instead of somebody storing them; none: the value itself is wanted.
struct ProductExit {
  MapGroup group;
  Value given = graph::kNone;  // the product as the group's maps name it: itself, or reshaped
};

// A block of a product's sums: its first element, and how many.
struct SumBlock {
  int64_t batch = 0, row = 0, column = 0;
  uint32_t rows = 0, columns = 0;
};

// Copies sums out of PSUM to `to`; DVE and Activation take `turn` about. From there they are stored
// to the block of the product in `place`, unless that is no buffer.
void leave_sums(Workspace& work, const graph::Node& product, const SumBlock& block,
                const TileAccess& sum, const TileAccess& to, size_t turn, const Buffer& place);

// Real numbers in f32.
// False if the product is no convolution, or there is no room; nothing is emitted then.
bool emit_convolution(Workspace& work, Value value, const ProductExit& exit);
void emit_resident_product(Workspace& work, Value value, const ProductExit& exit);

}  // namespace neuron::lowering

#endif
