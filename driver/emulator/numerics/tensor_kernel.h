// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the Tensor engine: psum[m][n] (+)= sum over k of stationary[k][m] *
// moving[k][n].
//
// Order, to the bit: k goes in steps of 32, the last padded with +0. In a step one fp32 FMA chain
// runs over the even k from +0, one over the odd k from +0; then c = c + (even + odd). c starts
// from PSUM when accumulating, else from +0. Round to nearest even; subnormal operands and results
// are zero; a NaN result is 0x7FC00000. Inputs widen to fp32 first (tf32 rounds to 10 bits).
// Callers: the PE of a NeuronCore. A Stationary belongs to one thread at a time; multiply uses 40
// KiB of stack. MXCSR comes back as it was. The engine checks sizes: K and M above 128 are clamped
// here, and N has no limit.
#ifndef DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_H
#define DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_H

#include <cstddef>
#include <cstdint>

#include "driver/emulator/numerics/tensor_kernel_pairs.h"
#include "hw/isa.h"

namespace neuron::numerics {

// A matrix as it lies in SBUF: row r (one per partition) starts at base + r * row_stride bytes, its
// elements are `step` elements apart.
struct RowView {
  const std::byte* base = nullptr;
  ptrdiff_t row_stride = 0;
  unsigned dtype = NEURON_DTYPE_F32;
  ptrdiff_t step = 1;
  uint8_t bias = 0;  // exponent bias of f8 types, 0 = default
};

// The stationary matrix, widened and packed as the kernels read it: what ldweights leaves in the
// PE.
class Stationary {
 public:
  static constexpr int kMaxK = NEURON_PE_MAX_K;
  static constexpr int kMaxM = NEURON_PE_MAX_M;
  static constexpr int kTileM = 3;   // columns of one micro tile
  static constexpr int kStepK = 32;  // depth after which the chains are summed

  void load(const RowView& rows, int k, int m);
  int k() const { return k_; }
  int m() const { return m_; }
  int padded_k() const { return (k_ + kStepK - 1) / kStepK * kStepK; }
  bool loaded() const { return k_ > 0; }
  // Makes tile() valid; until then weights that are in another form may lack this one.
  void need_floats();
  void clear() { k_ = m_ = 0; }
  // The same as AMX tiles (tensor_kernel_tiles-inl.h); null unless that path runs, the type is
  // exact in bf16 and m is a multiple of 16.
  const uint16_t* tiles() const { return in_tiles_ ? tiles_ : nullptr; }
  // The same as pairs of rows (tensor_kernel_pairs.h); null unless that path runs and the type is
  // exact in bf16.
  const uint32_t* pairs() const { return in_pairs_ ? pairs_ : nullptr; }
  // Tile t holds columns 3t..3t+2: padded_k rows of three values, absent columns and rows +0.
  const float* tile(int t) const { return packed_ + static_cast<size_t>(t) * padded_k() * kTileM; }

 private:
  static constexpr int kTiles = (kMaxM + kTileM - 1) / kTileM;
  void pack_tiles(const RowView& rows);
  void pack_pairs(const RowView& rows);
  template <class Row>
  void pack_floats(Row&& row);

  int k_ = 0;
  int m_ = 0;
  bool in_tiles_ = false;
  bool in_pairs_ = false;
  bool in_floats_ = false;
  alignas(64) uint16_t tiles_[kMaxM * kMaxK];
  alignas(64) uint32_t pairs_[pairs::kWeights];
  alignas(64) float packed_[kTiles * kTileM * kMaxK];
};

// `moving` has weights.k() rows of n elements. Row m of the result starts at psum + m * psum_stride
// floats and is contiguous.
void multiply(Stationary& weights, const RowView& moving, size_t n, float* psum,
              ptrdiff_t psum_stride, bool accumulate);

}  // namespace neuron::numerics
#endif
