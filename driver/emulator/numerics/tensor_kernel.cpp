// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/tensor_kernel.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/f8_simd.h"
#include "driver/emulator/numerics/float_environment.h"
#include "driver/emulator/numerics/tensor_kernel_amx.h"
#include "driver/emulator/numerics/tensor_kernel_pairs.h"
#include "driver/emulator/numerics/tensor_kernel_scalar.h"
#include "driver/emulator/numerics/tensor_kernel_tiles-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/tensor_kernel.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef NEURON_TENSOR_KERNEL_SHARED
#define NEURON_TENSOR_KERNEL_SHARED
namespace neuron::numerics {

// Columns of the moving matrix that are widened and made contiguous at a time: 128 x 64 floats stay
// in the first-level cache, while SBUF's partition stride would put every row on the same few cache
// sets.
constexpr size_t kBlockN = 64;
constexpr uint32_t kNan = 0x7FC00000u;
constexpr size_t kLine = 64;  // bytes of a cache line

// The columns of the moving matrix that are packed next, where they lie.
struct NextBlock {
  const std::byte* first = nullptr;
  ptrdiff_t row_stride = 0;
  int rows = 0;      // 0: there is no next block
  size_t bytes = 0;  // of a row

  // Asks for the part-th of `parts` parts of the rows. Into the second-level cache: the first one
  // is full of what is being multiplied.
  void ask(int part, int parts) const {
    for (int r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
      const std::byte* row = first + r * row_stride;
      for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, 2);
    }
  }
};

}  // namespace neuron::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

HWY_NOINLINE void make_nan_canonical(float* values, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (values[i] != values[i]) std::memcpy(values + i, &kNan, sizeof kNan);
  }
}

HWY_NOINLINE void copy_block(const RowView& rows, size_t first, int count, float* to) {
  for (int r = 0; r < count; ++r) {
    std::memcpy(to + r * kBlockN, rows.base + r * rows.row_stride + first * sizeof(float),
                kBlockN * sizeof(float));
  }
}

HWY_NOINLINE void multiply_block(const Stationary& weights, const float* moving, size_t n,
                                 const NextBlock&, float* psum, ptrdiff_t psum_stride,
                                 bool accumulate) {
  for (int m = 0; m < weights.m(); ++m) {
    const float* column = weights.tile(m / Stationary::kTileM) + m % Stationary::kTileM;
    float* row = psum + m * psum_stride;
    for (size_t j = 0; j < n; ++j) {
      row[j] = dot_in_engine_order(column, Stationary::kTileM, moving + j, kBlockN,
                                   weights.padded_k(), accumulate ? row[j] : 0.0f);
    }
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using Bits = hn::RebindToUnsigned<Lanes>;
using Vec = hn::Vec<Lanes>;

// n is a multiple of 16.
HWY_NOINLINE void make_nan_canonical(float* values, size_t n) {
  const Lanes d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const Vec v = hn::LoadU(d, values + i);
    if (!hn::AllFalse(d, hn::IsNaN(v)))
      hn::StoreU(hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(Bits(), kNan)), v), d,
                 values + i);
  }
}

// kBlockN columns of `count` rows of contiguous floats, from column `first`.
HWY_NOINLINE void copy_block(const RowView& rows, size_t first, int count, float* to) {
  const Lanes d;
  const std::byte* row = rows.base + first * sizeof(float);
  for (int r = 0; r < count; ++r, row += rows.row_stride, to += kBlockN) {
#pragma GCC unroll 8
    for (size_t at = 0; at < kBlockN; at += hn::Lanes(d)) {
      hn::Store(hn::LoadU(d, reinterpret_cast<const float*>(row) + at), d, to + at);
    }
  }
}

// Two chains per result vector: 3 x 4 x 2 accumulators take 24 of the 32 AVX-512 registers, 3 x 2 x
// 2 take 12 of the 16 of AVX2; the rest hold one row of moving vectors and one stationary value.
constexpr int kVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

// Keeps a loaded vector in its register: the compiler would otherwise repeat the load as a memory
// operand of each use, and loads would limit the speed instead of multiplications.
HWY_INLINE Vec in_register(Vec v) {
  __asm__("" : "+v"(v.raw));
  return v;
}

// MR x NV result vectors over the whole depth. `a` is a Stationary tile, `b` a column of the block.
template <int MR, int NV>
HWY_NOINLINE void micro_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int k,
                             float* HWY_RESTRICT c, ptrdiff_t c_stride, bool accumulate) {
  const Lanes d;
  const size_t lanes = hn::Lanes(d);
  for (int base = 0; base < k; base += Stationary::kStepK) {
    Vec even[MR][NV], odd[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) even[i][j] = odd[i][j] = hn::Zero(d);
#pragma GCC unroll 1
    for (int kk = 0; kk < Stationary::kStepK; kk += 2) {
      Vec row[NV];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) row[j] = in_register(hn::Load(d, b + j * lanes));
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const Vec w = hn::Set(d, a[i]);
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) even[i][j] = hn::MulAdd(w, row[j], even[i][j]);
      }
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) row[j] = in_register(hn::Load(d, b + kBlockN + j * lanes));
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const Vec w = hn::Set(d, a[Stationary::kTileM + i]);
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) odd[i][j] = hn::MulAdd(w, row[j], odd[i][j]);
      }
      a += 2 * Stationary::kTileM;
      b += 2 * kBlockN;
    }
    const bool from_zero = base == 0 && !accumulate;
    const bool last = base + Stationary::kStepK >= k;
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) {
        float* cell = c + i * c_stride + j * lanes;
        const Vec start = from_zero ? hn::Zero(d) : hn::LoadU(d, cell);
        Vec sum = hn::Add(start, hn::Add(even[i][j], odd[i][j]));
        if (last) sum = hn::IfThenElse(hn::IsNaN(sum), hn::BitCast(d, hn::Set(Bits(), kNan)), sum);
        hn::StoreU(sum, d, cell);
      }
  }
}

// MR rows of the result, all n columns of the block.
template <int MR>
void tile_rows(const float* a, const float* b, int k, size_t n, float* c, ptrdiff_t c_stride,
               bool accumulate) {
  const size_t lanes = hn::Lanes(Lanes());
  size_t j = 0;
  for (; j + kVectors * lanes <= n; j += kVectors * lanes)
    micro_tile<MR, kVectors>(a, b + j, k, c + j, c_stride, accumulate);
  for (; j + lanes <= n; j += lanes) micro_tile<MR, 1>(a, b + j, k, c + j, c_stride, accumulate);
  if (j == n) return;
  // The last, partial vector goes through a copy: nothing beyond column n is read or written.
  const size_t rest = n - j;
  alignas(64) float edge[MR * hn::MaxLanes(Lanes())] = {};
  for (int i = 0; accumulate && i < MR; ++i)
    std::memcpy(edge + i * lanes, c + i * c_stride + j, rest * sizeof(float));
  micro_tile<MR, 1>(a, b + j, k, edge, lanes, accumulate);
  for (int i = 0; i < MR; ++i)
    std::memcpy(c + i * c_stride + j, edge + i * lanes, rest * sizeof(float));
}

HWY_NOINLINE void multiply_block(const Stationary& weights, const float* moving, size_t n,
                                 const NextBlock& next, float* psum, ptrdiff_t psum_stride,
                                 bool accumulate) {
  const int k = weights.padded_k();
  const int tiles = (weights.m() + Stationary::kTileM - 1) / Stationary::kTileM;
  for (int m = 0; m < weights.m(); m += Stationary::kTileM) {
    next.ask(m / Stationary::kTileM, tiles);
    const float* tile = weights.tile(m / Stationary::kTileM);
    float* c = psum + m * psum_stride;
    switch (weights.m() - m) {
      case 1:
        tile_rows<1>(tile, moving, k, n, c, psum_stride, accumulate);
        break;
      case 2:
        tile_rows<2>(tile, moving, k, n, c, psum_stride, accumulate);
        break;
      default:
        tile_rows<3>(tile, moving, k, n, c, psum_stride, accumulate);
    }
  }
}

#endif

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {
namespace {

// Row r of a view from column `first`, widened to n floats.
void widen_row(const RowView& rows, int r, size_t first, float* dst, size_t n) {
  const unsigned bytes = element_bytes(rows.dtype);
  const std::byte* src =
      rows.base + r * rows.row_stride + static_cast<ptrdiff_t>(first * bytes) * rows.step;
  widen(rows.dtype, src, rows.step, dst, n, rows.bias);
}

bool exact_in_bf16(unsigned dtype) {
  return dtype == NEURON_DTYPE_BF16 || dtype == NEURON_DTYPE_F8E3 || dtype == NEURON_DTYPE_F8E4 ||
         dtype == NEURON_DTYPE_F8E5 || dtype == NEURON_DTYPE_F8E4FN;
}

// n values of row r from column `first`, in bf16. Returns the row in memory if it is contiguous
// bf16, else `scratch`.
const uint16_t* bf16_row(const RowView& rows, int r, size_t first, size_t n, uint16_t* scratch) {
  if (rows.dtype == NEURON_DTYPE_BF16 && rows.step == 1) {
    return reinterpret_cast<const uint16_t*>(rows.base + r * rows.row_stride) + first;
  }
  float wide[Stationary::kMaxM];
  size_t done = 0;
  if (element_bytes(rows.dtype) == 1 && rows.step == 1 && rows.bias == 0) {
    done = f8_to_bf16(rows.dtype, rows.base + r * rows.row_stride + first, scratch, n);
  }
  for (size_t at = done; at < n; at += std::size(wide)) {
    const size_t count = std::min(std::size(wide), n - at);
    widen_row(rows, r, first + at, wide, count);
    for (size_t i = 0; i < count; ++i) {
      scratch[at + i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(wide[i]) >> 16);
    }
  }
  return scratch;
}

// The columns of a moving matrix that are packed at a time, in blocks that stay in the first-level
// cache while they are multiplied. Whole runs of a row are read, because its partitions lie pages
// apart: in blocks alone, each block would begin with a miss of the address cache for each row.
constexpr size_t kWide = pairs::kMaxMoving;
// Of rows in bf16: no power of two, or all of them would compete for a few lines of the cache.
constexpr size_t kWideStride = kWide + 32;
struct Packed {
  union {
    alignas(64) uint16_t halves[Stationary::kMaxK * kWideStride];
    alignas(64) float floats[Stationary::kMaxK * kBlockN];
    alignas(64) uint32_t pairs[kWide / pairs::kBlockColumns][pairs::kMoving];
  };
};
Packed& packed_of_thread() {
  static thread_local const std::unique_ptr<Packed> packed(new Packed);
  return *packed;
}

// What the kernel of tiles reads of a moving matrix: bf16 where it lies, else whole runs of each
// row widened at once, because its blocks are too short to look up a table for each.
struct TileSource {
  RowView rows;
  size_t first;  // column
};
TileSource tile_source(const RowView& moving, int k, size_t first, size_t n) {
  if (moving.dtype == NEURON_DTYPE_BF16 && moving.step == 1) return {moving, first};
  uint16_t* wide = packed_of_thread().halves;
  for (int r = 0; r < k; ++r) bf16_row(moving, r, first, n, wide + r * kWideStride);
  return {{reinterpret_cast<const std::byte*>(wide),
           static_cast<ptrdiff_t>(kWideStride * sizeof(uint16_t)), NEURON_DTYPE_BF16},
          0};
}

void multiply_tiles(const Stationary& weights, const RowView& moving, size_t n, float* psum,
                    ptrdiff_t psum_stride, bool accumulate) {
  const AmxScope scope;
  const int steps = weights.padded_k() / tiles::kDepth;
  alignas(64) uint16_t packed[Stationary::kMaxK * tiles::kBlockColumns];
  for (size_t run = 0; run < n; run += kWide) {
    const size_t wide = std::min(kWide, n - run);
    const TileSource source = tile_source(moving, weights.k(), run, wide);
    for (size_t at = 0; at < wide; at += tiles::kBlockColumns) {
      const size_t columns = std::min(tiles::kBlockColumns, wide - at);
      tiles::pack_moving(
          [&](int r) { return bf16_row(source.rows, r, source.first + at, columns, nullptr); },
          weights.k(), steps, columns, packed);
      float* cells = psum + run + at;
      multiply_on_amx(weights.tiles(), weights.m(), packed, columns, steps, cells, psum_stride,
                      accumulate);
      for (int m = 0; m < weights.m(); ++m) {
        NEURON_ON_SIMD_PATH(make_nan_canonical, cells + m * psum_stride, columns);
      }
    }
  }
}

// Rows of a view in bf16, four at a time, as the kernel of pairs packs them.
struct Bf16Rows {
  const RowView& view;
  size_t first, n;
  uint16_t scratch[pairs::kQuad][kWide] = {};

  static const uint16_t* row(void* context, int r) {
    auto* rows = static_cast<Bf16Rows*>(context);
    return bf16_row(rows->view, r, rows->first, rows->n, rows->scratch[r % pairs::kQuad]);
  }
};

void multiply_pairs(const Stationary& weights, const RowView& moving, size_t n, float* psum,
                    ptrdiff_t psum_stride, bool accumulate) {
  const FlushScope environment;
  Packed& packed = packed_of_thread();
  Bf16Rows rows{moving, 0, 0};
  for (size_t first = 0; first < n; first += kWide) {
    rows.first = first;
    rows.n = std::min(kWide, n - first);
    pairs::pack_moving(Bf16Rows::row, &rows, weights.k(), rows.n, packed.pairs[0]);
    for (size_t at = 0; at < rows.n; at += pairs::kBlockColumns) {
      pairs::multiply(
          weights.pairs(), weights.m(), weights.k(), packed.pairs[at / pairs::kBlockColumns],
          std::min(pairs::kBlockColumns, rows.n - at), psum + first + at, psum_stride, accumulate);
    }
  }
}

// Rows of n columns of the moving matrix, at most kBlockN, padded with +0.
void pack_moving(const RowView& moving, int k, int padded_k, size_t first, size_t n, float* out) {
  if (moving.dtype == NEURON_DTYPE_F32 && moving.step == 1 && n == kBlockN) {
    NEURON_ON_SIMD_PATH(copy_block, moving, first, k, out);
  } else {
    for (int r = 0; r < k; ++r) {
      widen_row(moving, r, first, out + r * kBlockN, n);
      std::fill(out + r * kBlockN + n, out + (r + 1) * kBlockN, 0.0f);
    }
  }
  std::fill(out + k * kBlockN, out + padded_k * kBlockN, 0.0f);
}

// What is packed behind a block that ends at column `end`.
NextBlock next_block(const RowView& moving, int k, size_t end, size_t n) {
  if (end == n || moving.step != 1) return {};
  const size_t bytes = element_bytes(moving.dtype);
  return {moving.base + end * bytes, moving.row_stride, k, std::min(kBlockN, n - end) * bytes};
}

}  // namespace

void Stationary::pack_pairs(const RowView& rows) {
  in_pairs_ = simd_path() == SimdPath::kAvx512Bf16 && exact_in_bf16(rows.dtype) && m_ > 0 && k_ > 0;
  if (!in_pairs_) return;
  Bf16Rows source{rows, 0, static_cast<size_t>(m_)};
  pairs::pack_stationary(Bf16Rows::row, &source, k_, m_, pairs_);
}

void Stationary::pack_tiles(const RowView& rows) {
  in_tiles_ = simd_path() == SimdPath::kAmx && exact_in_bf16(rows.dtype) && m_ > 0 &&
              m_ % tiles::kRows == 0;
  if (!in_tiles_) return;
  uint16_t scratch[2][kMaxM];
  tiles::pack_stationary([&](int r) { return bf16_row(rows, r, 0, m_, scratch[r % 2]); }, k_, m_,
                         padded_k() / tiles::kDepth, tiles_);
}

// row(r, out) writes the m values of row r.
template <class Row>
void Stationary::pack_floats(Row&& row) {
  const int depth = padded_k();
  const int tiles = (m_ + kTileM - 1) / kTileM;
  // Collects the rows of one step, so that each tile is written in runs of consecutive memory.
  float rows_of_step[kStepK][kTiles * kTileM + 1];
  for (int base = 0; base < depth; base += kStepK) {
    for (int r = 0; r < kStepK; ++r) {
      float* values = rows_of_step[r];
      const int present = base + r < k_ ? m_ : 0;
      if (present > 0) row(base + r, values);
      std::fill(values + present, values + tiles * kTileM + 1, 0.0f);
    }
    for (int t = 0; t < tiles; ++t) {
      float* dst = packed_ + (static_cast<ptrdiff_t>(t) * depth + base) * kTileM;
      // One value more than belongs there, which the next row replaces: a copy of 16 bytes is one
      // instruction, one of 12 is two.
      for (int r = 0; r < kStepK - 1; ++r, dst += kTileM) {
        std::memcpy(dst, rows_of_step[r] + t * kTileM, (kTileM + 1) * sizeof(float));
      }
      std::memcpy(dst, rows_of_step[kStepK - 1] + t * kTileM, kTileM * sizeof(float));
    }
  }
  in_floats_ = true;
}

void Stationary::load(const RowView& rows, int k, int m) {
  k_ = std::clamp(k, 0, kMaxK);
  m_ = std::clamp(m, 0, kMaxM);
  in_floats_ = false;
  pack_tiles(rows);
  pack_pairs(rows);
  if (in_tiles_ || in_pairs_) return;
  pack_floats([&](int r, float* out) { widen_row(rows, r, 0, out, m_); });
}

void Stationary::need_floats() {
  if (in_floats_) return;
  const int steps = padded_k() / tiles::kDepth;
  pack_floats([&](int r, float* out) {
    for (int m = 0; m < m_; ++m) {
      const uint16_t code = in_pairs_ ? pairs::packed_value(pairs_, r, m, k_)
                                      : tiles::packed_value(tiles_, r, m, steps);
      out[m] = std::bit_cast<float>(uint32_t{code} << 16);
    }
  });
}

void multiply(Stationary& weights, const RowView& moving, size_t n, float* psum,
              ptrdiff_t psum_stride, bool accumulate) {
  if (weights.tiles() != nullptr && exact_in_bf16(moving.dtype) && n % tiles::kRows == 0) {
    return multiply_tiles(weights, moving, n, psum, psum_stride, accumulate);
  }
  if (weights.pairs() != nullptr && exact_in_bf16(moving.dtype)) {
    return multiply_pairs(weights, moving, n, psum, psum_stride, accumulate);
  }
  weights.need_floats();
  const FlushScope environment;
  float* const packed = packed_of_thread().floats;
  for (size_t first = 0; first < n; first += kBlockN) {
    const size_t columns = std::min(kBlockN, n - first);
    pack_moving(moving, weights.k(), weights.padded_k(), first, columns, packed);
    NEURON_ON_SIMD_PATH(multiply_block, weights, packed, columns,
                        next_block(moving, weights.k(), first + columns, n), psum + first,
                        psum_stride, accumulate);
  }
}

}  // namespace neuron::numerics
#endif
