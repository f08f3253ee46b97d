// SPDX-License-Identifier: Apache-2.0
// A product whose stationary matrix has structured sparsity: of each D rows of K, a column has S.
//
// PE takes the S compressed rows with their positions and multiplies them with all D rows of the
// moving matrix, which lie in S partitions: rows `slots` p to `slots` p + slots - 1 in partition p.
// A partition so loads rows of HBM that follow each other. One instruction has 128 compressed rows,
// 128 times slots dense ones. The moving matrix stays in SBUF, the stationary one passes by.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "driver/isa/instruction.h"
#include "driver/isa/sparsity.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/result_block.h"
#include "tools/compiler/kernels/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint32_t kSparseHigh = ResultBlock::kHigh, kSparseWide = ResultBlock::kWide;
constexpr uint32_t kInWord = 4;     // Positions of one u16
constexpr uint32_t kLoaded = 1024;  // Columns of the stationary matrix that are held at a time
constexpr uint8_t kSparseGeneration = 3;

class SparseMatmul {
 public:
  SparseMatmul(const std::string& name, uint8_t dtype, const SparseShape& shape, uint8_t generation)
      : program_(name, generation),
        dtype_(dtype),
        shape_(shape),
        slots_(isa::sparsity_of(shape.ratio).slots),
        depth_(static_cast<uint32_t>(shape.k / slots_ / kParts)) {}
  Neff build();

 private:
  // The stationary matrix of a block's rows of the result, 128 compressed rows.
  struct Stationary {
    Tile weights, positions;
  };

  std::vector<Stationary> allocate(uint32_t columns);
  void load(const Stationary& to, uint32_t deep, uint64_t first, uint32_t count);
  void multiply(const Stationary& stationary, uint32_t deep, Span rows, Span columns);

  Program program_;
  uint8_t dtype_;
  SparseShape shape_;
  uint32_t slots_, depth_;
  Buffer weights_, positions_;
  std::vector<Tile> moving_;
  std::optional<ResultBlock> block_;
};

std::vector<SparseMatmul::Stationary> SparseMatmul::allocate(uint32_t columns) {
  std::vector<Stationary> panel(depth_);
  for (Stationary& tile : panel) {
    tile.weights = program_.sbuf("weights", kParts, columns, dtype_);
    tile.positions = program_.sbuf("positions", kParts, columns / kInWord, NEURON_DTYPE_U16);
  }
  return panel;
}

void SparseMatmul::load(const Stationary& to, uint32_t deep, uint64_t first, uint32_t count) {
  const uint64_t row = uint64_t{deep} * kParts;
  program_.dma(Engine::kSp, to.weights.column_range(0, count),
               weights_.block(row, kParts, first, count));
  program_.dma(Engine::kSp, to.positions.column_range(0, count / kInWord),
               positions_.block(row, kParts, first / kInWord, count / kInWord));
}

// Adds the products of 128 compressed rows to a block of the result.
void SparseMatmul::multiply(const Stationary& stationary, uint32_t deep, Span rows, Span columns) {
  const auto wide = static_cast<int32_t>(shape_.n);
  for (uint32_t row = 0; row < rows.count; row += kSparseHigh) {
    const uint32_t place = rows.first + row;
    for (uint32_t n = 0; n < columns.count; n += kSparseWide) {
      program_.matmul_sparse(
          block_->sums(row, n),
          {stationary.weights.column_range(place, kSparseHigh),
           stationary.positions.column_range(place / kInWord, kSparseHigh / kInWord), shape_.ratio},
          moving_[deep].pattern(0, kParts, columns.first + n, {kSparseWide, slots_}, {1, wide}),
          deep != 0);
    }
  }
}

Neff SparseMatmul::build() {
  const uint64_t compressed = shape_.k / slots_;
  const auto high = static_cast<uint32_t>(shape_.m), wide = static_cast<uint32_t>(shape_.n);
  weights_ = program_.input("weights", dtype_, {compressed, shape_.m});
  positions_ = program_.input("positions", NEURON_DTYPE_U16, {compressed, shape_.m / kInWord});
  const Buffer rhs = program_.input("rhs", dtype_, {shape_.k, shape_.n});
  block_.emplace(program_, program_.output("result", dtype_, {shape_.m, shape_.n}));
  std::array<std::vector<Stationary>, 2> panels;
  const size_t held = high > kLoaded ? 2 : 1;
  for (size_t i = 0; i < held; ++i) panels[i] = allocate(std::min(kLoaded, high));
  const uint64_t row_of_slots = uint64_t{slots_} * wide;
  ResultBlock::for_each(program_, high, wide, [&](const Span& rows, const Span& columns) {
    const auto& panel = panels[rows.first / kLoaded % held];
    for (uint32_t deep = 0; deep < depth_; ++deep) {
      if (columns.first == 0 && rows.first % kLoaded == 0) {
        load(panel[deep], deep, rows.first, std::min(kLoaded, high - rows.first));
      }
      if (rows.first == 0 && columns.first == 0) {
        moving_.push_back(program_.sbuf("rhs", kParts, slots_ * wide, dtype_));
        program_.dma(Engine::kSp, moving_.back().all(),
                     rhs.pattern(uint64_t{deep} * kParts * row_of_slots, {row_of_slots, kParts},
                                 {1, static_cast<int64_t>(row_of_slots)}));
      }
      multiply(panel[deep], deep, {rows.first % kLoaded, rows.count}, columns);
    }
    block_->store(rows, columns);
  });
  return program_.build();
}

}  // namespace

Neff sparse_matmul(const std::string& name, uint8_t dtype, const SparseShape& shape,
                   uint8_t generation) {
  if (generation < kSparseGeneration) {
    return fail(NRT_INVALID,
                "sparse_matmul \"{}\" for generation {}; structured sparsity is of generations {} "
                "and later (trn2, trn3)",
                name, generation, kSparseGeneration);
  }
  const auto [m, k, n, ratio] = shape;
  const uint32_t slots = isa::sparsity_of(ratio).slots;
  if (ratio >= isa::kSparsities || m == 0 || k == 0 || n == 0 || m % kSparseHigh != 0 ||
      k % (uint64_t{kParts} * slots) != 0 || n % kSparseWide != 0 || n > INT16_MAX ||
      (dtype != NEURON_DTYPE_BF16 && dtype != NEURON_DTYPE_F16)) {
    return fail(
        NRT_INVALID,
        "sparse_matmul \"{}\" of [{}, {}] x [{}, {}], {}, ratio {}; expected bf16 or f16, a "
        "ratio NEURON_SPARSE_*, M a multiple of {}, K of {} times the ratio's slots, N of "
        "{} up to 32256",
        name, m, k, k, n, isa::dtype_name(dtype), ratio, kSparseHigh, kParts, kSparseWide);
  }
  return SparseMatmul(name, dtype, shape, generation).build();
}

}  // namespace neuron::kernels
