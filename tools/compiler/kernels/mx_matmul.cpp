// SPDX-License-Identifier: Apache-2.0
// A product of two matrices that DVE quantises on the way: block-scaled f8, 512 rows of K at a
// time.
//
// Row 4 p + j of 512 rows of K is code j of partition p, so one partition loads four whole rows.
// The quantisation reads them across: the four codes of an element are `width` elements apart.
// Blocks of one scale are then 32 rows of K that follow each other. The moving matrix is quantised
// once and stays in SBUF; the stationary one passes by in panels of a block's rows. Scales have
// tiles of their own, so that a quantisation does not wait for products with those of another one.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/result_block.h"
#include "tools/compiler/kernels/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::ScaledAccess;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint32_t kCodes = NEURON_MX_CODES;
constexpr uint32_t kMxDeep = kParts * kCodes;
constexpr uint32_t kMxHigh = ResultBlock::kHigh, kMxWide = ResultBlock::kWide;
constexpr uint32_t kMxLoaded = ResultBlock::kColumns;  // Columns of one load: rows of 2 KiB
constexpr uint8_t kMxGeneration = 4;

// A matrix of K rows in block-scaled form: a tile of codes for each 512 rows.
struct Quantised {
  std::vector<Tile> codes, scales;

  ScaledAccess part(uint32_t deep, uint32_t first, uint32_t count) const {
    return {codes[deep].column_range(first, count), scales[deep].column_range(first, count)};
  }
};

class MxMatmul {
 public:
  MxMatmul(const std::string& name, uint8_t dtype, const MatmulShape& shape, uint8_t codes)
      : program_(name, kMxGeneration), dtype_(dtype), codes_(codes), shape_(shape) {}
  Neff build();

 private:
  Quantised allocate(const char* name, uint32_t columns);
  void load(const Quantised& to, uint32_t deep, const Buffer& from, uint32_t column,
            uint32_t columns);
  void multiply(const Quantised& lhs, uint32_t deep, Span rows, Span columns);

  Program program_;
  uint8_t dtype_, codes_;
  MatmulShape shape_;
  uint32_t depth_ = 0;
  Quantised rhs_;
  std::array<Tile, 3> loaded_;
  uint32_t next_loaded_ = 0;
  std::optional<ResultBlock> block_;
};

Quantised MxMatmul::allocate(const char* name, uint32_t columns) {
  Quantised matrix;
  for (uint32_t deep = 0; deep < depth_; ++deep) {
    matrix.codes.push_back(program_.sbuf(name, kParts, columns, codes_));
    matrix.scales.push_back(
        program_.sbuf(std::string(name) + " scales", kParts, columns, NEURON_DTYPE_U8));
  }
  return matrix;
}

// Quantises 512 rows of `columns` columns from `column` on.
void MxMatmul::load(const Quantised& to, uint32_t deep, const Buffer& from, uint32_t column,
                    uint32_t columns) {
  const uint32_t place = column % to.codes[deep].columns;
  const auto row = static_cast<int64_t>(from.columns);
  for (uint32_t first = 0; first < columns; first += kMxLoaded) {
    const uint32_t count = std::min(kMxLoaded, columns - first);
    const Tile& loaded = loaded_[next_loaded_++ % loaded_.size()];
    program_.dma(Engine::kSp, loaded.column_range(0, kCodes * count),
                 from.pattern(uint64_t{deep} * kMxDeep * from.columns + column + first,
                              {count, kCodes, kParts}, {1, row, kCodes * row}));
    program_.quantize_mx(
        to.part(deep, place + first, count),
        loaded.pattern(0, kParts, 0, {kCodes, count}, {static_cast<int32_t>(count), 1}));
  }
}

// Adds the products of 512 rows of K to a block of the result.
void MxMatmul::multiply(const Quantised& lhs, uint32_t deep, Span rows, Span columns) {
  for (uint32_t row = 0; row < rows.count; row += kMxHigh) {
    program_.load_weights_mx(lhs.part(deep, rows.first + row, kMxHigh));
    for (uint32_t n = 0; n < columns.count; n += kMxWide) {
      program_.multiply_mx(block_->sums(row, n), rhs_.part(deep, columns.first + n, kMxWide),
                           deep != 0, n == 0);
    }
  }
}

Neff MxMatmul::build() {
  const auto [m, k, n] = shape_;
  const Buffer lhs_t = program_.input("lhs_t", dtype_, {k, m});
  const Buffer rhs = program_.input("rhs", dtype_, {k, n});
  block_.emplace(program_, program_.output("result", dtype_, {m, n}));
  depth_ = static_cast<uint32_t>(k / kMxDeep);
  const auto wide = static_cast<uint32_t>(n), high = static_cast<uint32_t>(m);
  rhs_ = allocate("rhs", wide);
  std::array<Quantised, 2> panels;
  const size_t held = high > kMxLoaded ? 2 : 1;
  for (size_t i = 0; i < held; ++i) panels[i] = allocate("lhs_t", std::min(kMxLoaded, high));
  for (Tile& tile : loaded_) {
    tile =
        program_.sbuf("loaded", kParts, kCodes * std::min(kMxLoaded, std::max(wide, high)), dtype_);
  }
  ResultBlock::for_each(program_, high, wide, [&](const Span& rows, const Span& columns) {
    const Quantised& panel = panels[rows.first / kMxLoaded % held];
    for (uint32_t deep = 0; deep < depth_; ++deep) {
      if (columns.first == 0 && rows.first % kMxLoaded == 0) {
        load(panel, deep, lhs_t, rows.first, std::min(kMxLoaded, high - rows.first));
      }
      if (rows.first == 0) load(rhs_, deep, rhs, columns.first, columns.count);
      multiply(panel, deep, {rows.first % kMxLoaded, rows.count}, columns);
    }
    block_->store(rows, columns);
  });
  return program_.build();
}

}  // namespace

Neff mx_matmul(const std::string& name, uint8_t dtype, const MatmulShape& shape, uint8_t codes,
               uint8_t generation) {
  if (generation < kMxGeneration) {
    return fail(NRT_INVALID,
                "mx_matmul \"{}\" for generation {}; block-scaled products are of generation {} "
                "(trn3)",
                name, generation, kMxGeneration);
  }
  const auto [m, k, n] = shape;
  if (m == 0 || k == 0 || n == 0 || m % kMxHigh != 0 || k % kMxDeep != 0 || n % kMxWide != 0 ||
      m > UINT32_MAX || n > UINT32_MAX ||
      (dtype != NEURON_DTYPE_BF16 && dtype != NEURON_DTYPE_F16) ||
      (codes != NEURON_DTYPE_F8E4FNX4 && codes != NEURON_DTYPE_F8E5X4)) {
    return fail(NRT_INVALID,
                "mx_matmul \"{}\" of [{}, {}] x [{}, {}], {} as {}; expected bf16 or f16 as "
                "f8e4fnx4 or f8e5x4, M a multiple of {}, K and N of {}",
                name, m, k, k, n, isa::dtype_name(dtype), isa::dtype_name(codes), kMxHigh, kMxDeep);
  }
  return MxMatmul(name, dtype, shape, codes).build();
}

}  // namespace neuron::kernels
