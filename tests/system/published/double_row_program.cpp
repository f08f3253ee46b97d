// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "tests/system/published/later_programs.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::published {
namespace {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

constexpr uint8_t kF32 = NEURON_DTYPE_F32, kBf16 = NEURON_DTYPE_BF16, kCode = NEURON_DTYPE_F8E4;
constexpr uint32_t kM = 512, kK = 16384, kN = 1024;
constexpr uint32_t kParts = NEURON_PARTITIONS, kHigh = NEURON_PE_MAX_M, kWide = NEURON_PE_MAX_N;
constexpr uint32_t kDepth = kK / kParts;  // 128 rows of K each; two of these are one product
constexpr uint32_t kAtOnce = 4;           // that are transposed into one bank
constexpr uint32_t kPiece = kAtOnce * kParts, kPieces = kK / kPiece;  // Columns of a row of lhs
constexpr builder::PeOptions kDoubleRow{.double_row = true};

class DoubleRow {
 public:
  DoubleRow() : program_("double_row_matmul", 3) {
    lhs_ = program_.input("lhs", kBf16, {kM, kK});
    rhs_ = program_.input("rhs", kCode, {kK, kN});
    result_ = program_.output("result", kBf16, {kM, kN});
    scales_ = program_.sbuf("scales of rhs", kParts, kN, kF32);
    program_.dma(Engine::kActivation, scales_.all(),
                 program_.input("rhs_scale", kF32, {kN}).broadcast(kParts));
    moving_ = program_.sbuf("rhs", kParts, kDepth * kN, kCode);
    for (Tile& tile : rows_) tile = program_.sbuf("lhs", kParts, kK, kBf16);
    for (Tile& tile : turned_) tile = program_.sbuf("lhs_t", kParts, kAtOnce * kHigh, kCode);
    for (Tile& bank : transposed_) bank = program_.psum("lhs_t", kParts, kAtOnce * kHigh, kBf16);
    for (Tile& bank : sums_) bank = program_.psum("sum", kHigh, kWide);
    for (Tile& tile : outputs_) tile = program_.sbuf("result", kHigh, kWide, kBf16);
    for (Tile& tile : factors_) tile = program_.sbuf("scale and inverse", kParts, 2, kF32);
    for (Tile& tile : greatest_) tile = program_.sbuf("greatest", kParts, kPieces, kF32);
    for (Tile& tile : lowest_) tile = program_.sbuf("lowest", kParts, kPieces, kF32);
  }

  kernels::Neff build() {
    load(0);
    for (uint32_t deep = 0; deep < kDepth; ++deep) {
      program_.dma(Engine::kActivation, moving_.column_range(deep * kN, kN),
                   rhs_.block(uint64_t{deep} * kParts, kParts, 0, kN));
    }
    for (uint32_t piece = 0; piece < kPieces; ++piece) reduce(0, piece);
    quantise(0);
    for (uint32_t tile = 0; tile < kM / kHigh; ++tile) {
      const bool another = tile + 1 < kM / kHigh;
      if (another) load(tile + 1);
      multiply(tile, another);
      if (another) quantise(tile + 1);
      store(tile);
    }
    return program_.build();
  }

 private:
  void load(uint32_t tile) {
    program_.dma(Engine::kSp, rows_[tile % 2].all(),
                 lhs_.block(uint64_t{tile} * kHigh, kHigh, 0, kK));
  }

  // The greatest and the lowest of a piece of each row.
  void reduce(uint32_t tile, uint32_t piece) {
    const builder::TileAccess part = rows_[tile % 2].column_range(piece * kPiece, kPiece);
    program_.tensor_reduce(greatest_[tile % 2].column_range(piece, 1), NEURON_ALU_MAX, part);
    program_.tensor_reduce(lowest_[tile % 2].column_range(piece, 1), NEURON_ALU_MIN, part);
  }

  // Each row in terms of its scale, in place; the codes are made when the transposes are copied.
  void quantise(uint32_t tile) {
    const Tile& rows = rows_[tile % 2];
    const builder::TileAccess scale = factors_[tile % 2].column_range(0, 1);
    const builder::TileAccess inverse = factors_[tile % 2].column_range(1, 1);
    program_.tensor_reduce(scale, NEURON_ALU_MAX, greatest_[tile % 2].all());
    program_.tensor_reduce(inverse, NEURON_ALU_MIN, lowest_[tile % 2].all());
    program_.tensor_tensor(Engine::kDve, scale, scale, NEURON_ALU_ABS_MAX, inverse);
    program_.tensor_scalar(Engine::kDve, scale, scale, NEURON_ALU_MAX, kernels::kQuantSmallest,
                           NEURON_ALU_MUL, 1.0F / kernels::kQuantGreatest);
    program_.reciprocal(inverse, scale);
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      const builder::TileAccess part = rows.column_range(piece * kPiece, kPiece);
      program_.activate(part, NEURON_ACT_COPY, part, {.scale = inverse});
    }
  }

  const Tile& turned(const Tile& rows, uint32_t first) {
    const Tile& bank = transposed_[next_ % transposed_.size()];
    const Tile& to = turned_[next_++ % turned_.size()];
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      program_.transpose(bank.column_range(i * kHigh, kHigh),
                         rows.column_range((first + i) * kParts, kParts));
    }
    program_.tensor_copy(Engine::kDve, to.all(), bank.all());
    return to;
  }

  // `another`: the rows of the next tile are reduced meanwhile.
  void multiply(uint32_t tile, bool another) {
    const Tile& rows = rows_[tile % 2];
    const Tile* next = &turned(rows, 0);
    for (uint32_t first = 0; first < kDepth; first += kAtOnce) {
      const Tile& left = *next;
      if (another) reduce(tile + 1, first / kAtOnce);
      if (first + kAtOnce < kDepth) next = &turned(rows, first + kAtOnce);
      for (uint32_t i = 0; i < kAtOnce; i += 2) {
        for (uint32_t column = 0; column < kN; column += kWide) {
          const auto step = static_cast<int32_t>(kN);
          program_.matmul(
              sum_of(tile, column).all(), left.column_range(i * kHigh, 2 * kHigh).split(2),
              moving_.pattern(0, kParts, (first + i) * kN + column, {kWide, 2}, {1, step}),
              first + i > 0, kDoubleRow);
        }
      }
    }
  }

  void store(uint32_t tile) {
    for (uint32_t column = 0; column < kN; column += kWide) {
      const Tile& out = outputs_[column / kWide % outputs_.size()];
      program_.scalar_tensor_tensor(out.all(), sum_of(tile, column).all(), NEURON_ALU_MUL,
                                    factors_[tile % 2].column_range(0, 1), NEURON_ALU_MUL,
                                    scales_.column_range(column, kWide));
      program_.dma(Engine::kSp, result_.block(uint64_t{tile} * kHigh, kHigh, column, kWide),
                   out.all());
    }
  }

  const Tile& sum_of(uint32_t tile, uint32_t column) {
    return sums_[(tile * (kN / kWide) + column / kWide) % sums_.size()];
  }

  Program program_;
  Buffer lhs_, rhs_, result_;
  Tile scales_, moving_;
  std::array<Tile, 2> rows_, factors_, greatest_, lowest_;
  std::array<Tile, 4> turned_, transposed_, sums_;
  std::array<Tile, 2> outputs_;
  size_t next_ = 0;
};

}  // namespace

kernels::Neff double_row_matmul() { return DoubleRow().build(); }

}  // namespace neuron::published
