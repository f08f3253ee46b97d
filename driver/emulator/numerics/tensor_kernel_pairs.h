// SPDX-License-Identifier: Apache-2.0
// The Tensor engine's product on VDPBF16PS, for inputs that are exact in bf16.
//
// The instruction is two fused multiply-adds, one behind the other: first the upper halves of its
// operands, then the lower ones, subnormals flushed. So a pair of rows k and k + 2 (k in the upper
// half) is two links of the chain over the even k, and a pair of rows k + 1 and k + 3 two links of
// the chain over the odd k: the defined order (tensor_kernel.h), at two multiplications an
// instruction. Available where the processor has the instruction and a product of random, special
// and tiny values gives the bits of the definition, which is tested once. Thread-safe. Cannot fail.
#ifndef DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_PAIRS_H
#define DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_PAIRS_H

#include <cstddef>
#include <cstdint>

namespace neuron::numerics::pairs {

inline constexpr int kMaxColumns = 128;  // of the stationary matrix
inline constexpr int kMaxDepth = 128;
inline constexpr int kTile = 3;              // columns of the stationary matrix in a micro tile
inline constexpr size_t kBlockColumns = 64;  // of the moving matrix, multiplied at a time
inline constexpr size_t kMaxMoving = 512;    // columns of the moving matrix, packed at a time
inline constexpr int kStep = 32;             // depth after which the chains are summed
inline constexpr int kQuad = 4;              // rows that are packed together: two pairs
inline constexpr int kTiles = (kMaxColumns + kTile - 1) / kTile;
inline constexpr size_t kWeights = size_t{kTiles} * kTile * kMaxDepth / 2;  // numbers of 32 bits
inline constexpr size_t kMoving = kBlockColumns * kMaxDepth / 2;

bool available();

// Packs `k` rows of m values of the stationary matrix, padded with +0 to whole steps and tiles.
// row(context, r) points to the bf16 values of row r; those of four rows stay valid together.
// Only where available().
using Row = const uint16_t* (*)(void* context, int r);
void pack_stationary(Row row, void* context, int k, int m, uint32_t* packed);
// Packs `columns` columns (at most kMaxMoving) of `k` rows, in blocks of kBlockColumns columns that
// lie kMoving numbers apart. Only where available().
void pack_moving(Row row, void* context, int k, size_t columns, uint32_t* packed);

// The m rows of `columns` columns (at most kBlockColumns) of the result, whose row r starts at c +
// r * c_stride. NaN are canonical. Call inside a FlushScope. Only where available().
void multiply(const uint32_t* weights, int m, int k, const uint32_t* moving, size_t columns,
              float* c, ptrdiff_t c_stride, bool accumulate);

// The value of row k, column m in what pack_stationary wrote for `depth` rows.
uint16_t packed_value(const uint32_t* packed, int k, int m, int depth);

}  // namespace neuron::numerics::pairs
#endif
