// SPDX-License-Identifier: Apache-2.0
// result = transpose(lhs_t) * rhs, in tiles of 128 x 128 (stationary) and 128 x 512 (moving).
//
// A block of the result fills the eight PSUM banks: two moving tiles wide, four stationary tiles
// high (one and eight if the result is one tile wide). In a block that loads its operands, K is the
// outer loop, so that the products start with the first tiles that arrive; rings of tiles let loads
// run ahead. If the moving tiles of all of K fit into SBUF, they stay for the blocks below. Those
// blocks have K as the inner loop, so that their banks are finished and emptied one after the
// other. Any K fits.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint64_t kOutputs = 8;  // Tiles on their way to HBM
// Bytes of a partition for operands; the rest of SBUF holds outputs.
constexpr uint64_t kOperandBytes = NEURON_V2_SBUF_PARTITION_BYTES - kOutputs * kWide * 4 - 4096;

class Matmul {
 public:
  Matmul(const std::string& name, uint8_t dtype, const MatmulShape& shape)
      : program_(name), dtype_(dtype), shape_(shape) {}

  Neff build();

 private:
  struct Block {
    uint64_t row, rows, column, columns;
  };

  void allocate();
  void load(const Tile& to, const Buffer& from, uint64_t k, uint64_t column, uint64_t columns,
            Engine owner);
  void block(const Block& block, bool loads_moving);
  void multiply(const Block& block, const Tile& stationary, const Tile& moving, uint64_t m,
                uint64_t in_panel, bool first);
  void store(const Block& block, uint64_t m);
  const Tile& bank(const Block& block, uint64_t m, uint64_t n) const {
    return banks_[(m / kHigh * (block.columns / kWide) + n / kWide) % banks_.size()];
  }

  Program program_;
  uint8_t dtype_;
  MatmulShape shape_;
  Buffer lhs_, rhs_, result_;
  uint64_t block_columns_ = 0, block_rows_ = 0;
  uint64_t panel_rows_ = 0;                // Of one load of stationary tiles: one block or two
  std::vector<Tile> stationary_, moving_;  // Rings
  uint64_t first_stationary_ = 0, next_stationary_ = 0, next_moving_ = 0;
  uint64_t panel_ = 0;  // Where the moving tiles of the present columns begin
  bool keeps_moving_ = false;
  std::array<Tile, NEURON_PSUM_BANKS> banks_;
  std::array<Tile, kOutputs> outputs_;
  uint64_t next_output_ = 0;
};

void Matmul::allocate() {
  const uint64_t element = isa::dtype_bytes(dtype_);
  const uint64_t depth = shape_.k / kDeep;
  const uint64_t wide = std::min<uint64_t>(2, shape_.n / kWide);
  block_columns_ = wide * kWide;
  block_rows_ = std::min(shape_.m, NEURON_PSUM_BANKS / wide * kHigh);
  const uint64_t moving = block_columns_ * element;
  // A second panel of each lets the next block's tiles arrive meanwhile, as far as SBUF has room.
  uint64_t kept = std::min<uint64_t>(2 * depth, kOperandBytes / 2 / moving);
  keeps_moving_ = kept >= depth;
  const auto most = [&](uint64_t rows) {
    return std::min<uint64_t>(2 * depth, (kOperandBytes - kept * moving) / (rows * element));
  };
  // Longer rows make better descriptors, and the tiles of the block below are then loaded already.
  panel_rows_ = std::min(shape_.m, 2 * block_rows_);
  if (most(panel_rows_) < depth) panel_rows_ = block_rows_;
  const uint64_t ahead = most(panel_rows_);
  for (uint64_t i = 0; i < kept; ++i) {
    moving_.push_back(program_.sbuf("rhs", kDeep, static_cast<uint32_t>(block_columns_), dtype_));
  }
  for (uint64_t i = 0; i < ahead; ++i) {
    stationary_.push_back(
        program_.sbuf("lhs_t", kDeep, static_cast<uint32_t>(panel_rows_), dtype_));
  }
  for (Tile& out : outputs_) out = program_.sbuf("output", kHigh, kWide, dtype_);
  for (Tile& bank : banks_) bank = program_.psum("sum", kHigh, kWide);
}

void Matmul::load(const Tile& to, const Buffer& from, uint64_t k, uint64_t column, uint64_t columns,
                  Engine owner) {
  program_.dma(owner, to.column_range(0, static_cast<uint32_t>(columns)),
               from.block(k * kDeep, kDeep, column, columns));
}

void Matmul::multiply(const Block& block, const Tile& stationary, const Tile& moving, uint64_t m,
                      uint64_t in_panel, bool first) {
  program_.load_weights(stationary.column_range(static_cast<uint32_t>(in_panel + m), kHigh));
  for (uint64_t n = 0; n < block.columns; n += kWide) {
    program_.multiply(bank(block, m, n).all(), moving.column_range(static_cast<uint32_t>(n), kWide),
                      !first, n == 0);
  }
}

void Matmul::store(const Block& block, uint64_t m) {
  for (uint64_t n = 0; n < block.columns; n += kWide) {
    const Tile& out = outputs_[next_output_ % kOutputs];
    if (next_output_++ % 2 == 0) {
      program_.activate(out.all(), NEURON_ACT_COPY, bank(block, m, n).all());
    } else {
      program_.tensor_copy(Engine::kDve, out.all(), bank(block, m, n).all());
    }
    // Pool computes nothing here, so a store that waits for its copy delays no other work.
    program_.dma(Engine::kPool, result_.block(block.row + m, kHigh, block.column + n, kWide),
                 out.all());
  }
}

void Matmul::block(const Block& block, bool loads_moving) {
  program_.section("block_" + std::to_string(block.row) + "_" + std::to_string(block.column));
  const uint64_t depth = shape_.k / kDeep;
  const uint64_t in_panel = block.row % panel_rows_;
  const bool loads_stationary = in_panel == 0;
  if (loads_stationary) {
    first_stationary_ = next_stationary_;
    next_stationary_ += depth;
  }
  const auto stationary = [&](uint64_t k) -> const Tile& {
    return stationary_[(first_stationary_ + k) % stationary_.size()];
  };
  const auto moving = [&](uint64_t k) -> const Tile& {
    return moving_[(panel_ + k) % moving_.size()];
  };
  // K is the inner loop only if the tiles are loaded when they are needed.
  const bool inner = !loads_moving && stationary_.size() >= depth;
  for (uint64_t k = 0; k < depth; ++k) {
    if (loads_stationary) {
      load(stationary(k), lhs_, k, block.row, std::min(panel_rows_, shape_.m - block.row),
           Engine::kSp);
    }
    if (loads_moving) load(moving(k), rhs_, k, block.column, block.columns, Engine::kSp);
    if (inner) continue;
    for (uint64_t m = 0; m < block.rows; m += kHigh) {
      multiply(block, stationary(k), moving(k), m, in_panel, k == 0);
      if (k + 1 == depth) store(block, m);
    }
  }
  if (!inner) return;
  for (uint64_t m = 0; m < block.rows; m += kHigh) {
    for (uint64_t k = 0; k < depth; ++k) {
      multiply(block, stationary(k), moving(k), m, in_panel, k == 0);
    }
    store(block, m);
  }
}

// Types of operands and results; the sums are f32 always.
bool multiplies(uint8_t dtype) {
  return dtype == NEURON_DTYPE_F32 || dtype == NEURON_DTYPE_BF16 || dtype == NEURON_DTYPE_F16 ||
         dtype == NEURON_DTYPE_F8E4 || dtype == NEURON_DTYPE_F8E5;
}

Neff Matmul::build() {
  if (shape_.m == 0 || shape_.k == 0 || shape_.n == 0 || shape_.m % kHigh || shape_.k % kDeep ||
      shape_.n % kWide || !multiplies(dtype_)) {
    return fail(
        NRT_INVALID,
        "matmul \"{}\" of [{}, {}] x [{}, {}], {}; expected f32, bf16, f16, f8e4 or f8e5, M and K "
        "multiples of 128, N a multiple of 512",
        program_.name(), shape_.m, shape_.k, shape_.k, shape_.n, isa::dtype_name(dtype_));
  }
  lhs_ = program_.input("lhs_t", dtype_, {shape_.k, shape_.m});
  rhs_ = program_.input("rhs", dtype_, {shape_.k, shape_.n});
  result_ = program_.output("result", dtype_, {shape_.m, shape_.n});
  allocate();
  for (uint64_t column = 0; column < shape_.n; column += block_columns_) {
    const uint64_t columns = std::min(block_columns_, shape_.n - column);
    panel_ = next_moving_;
    for (uint64_t row = 0; row < shape_.m; row += block_rows_) {
      const uint64_t rows = std::min(block_rows_, shape_.m - row);
      const bool loads = row == 0 || !keeps_moving_;
      if (loads) panel_ = next_moving_;
      if (loads) next_moving_ += shape_.k / kDeep;
      block({row, rows, column, columns}, loads);
    }
  }
  return program_.build();
}

}  // namespace

Neff matmul(const std::string& name, uint8_t dtype, const MatmulShape& shape) {
  return Matmul(name, dtype, shape).build();
}

}  // namespace neuron::kernels
