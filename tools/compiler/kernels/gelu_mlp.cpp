// SPDX-License-Identifier: Apache-2.0
// y = gelu(x w1 + b1) w2 + b2, for rows of x.
//
// Rows arrive on partitions; the first product needs x's columns there, so PE transposes x. PE then
// computes the hidden units with units on partitions. The bias is then one number for each
// partition, Activation applies the gelu on the way out of PSUM, and the units already lie as the
// second product needs its stationary matrix.
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

constexpr uint64_t kTile = NEURON_PARTITIONS;

class GeluMlp {
 public:
  GeluMlp(const std::string& name, uint8_t dtype, const MlpShape& shape)
      : program_(name), dtype_(dtype), shape_(shape) {}
  Neff build();

 private:
  std::vector<Tile> load_matrix(const char* name, uint64_t rows, uint64_t columns);
  void rows(uint64_t row);
  Tile bank() { return banks_[next_bank_++ % banks_.size()]; }

  Program program_;
  uint8_t dtype_;
  MlpShape shape_;
  Buffer x_, y_;
  std::vector<Tile> w1_, w2_, b1_;
  Tile b2_;
  std::array<Tile, 4> banks_;
  std::array<Tile, 2> turning_;
  uint64_t next_bank_ = 0, next_set_ = 0;
  struct Set {
    Tile x, y;
    std::vector<Tile> columns, units;
  };
  std::array<Set, 2> sets_;
};

std::vector<Tile> GeluMlp::load_matrix(const char* name, uint64_t rows, uint64_t columns) {
  const Buffer matrix = program_.input(name, dtype_, {rows, columns});
  std::vector<Tile> tiles;
  for (uint64_t row = 0; row < rows; row += kTile) {
    tiles.push_back(program_.sbuf(name, kTile, static_cast<uint32_t>(columns), dtype_));
    program_.dma(Engine::kActivation, tiles.back().all(), matrix.block(row, kTile, 0, columns));
  }
  return tiles;
}

void GeluMlp::rows(uint64_t row) {
  program_.section("rows_" + std::to_string(row));
  const Set& set = sets_[next_set_++ % 2];
  program_.dma(Engine::kSp, set.x.all(), x_.block(row, kTile, 0, shape_.inputs));
  for (size_t c = 0; c < set.columns.size(); ++c) {
    const Tile& turned = turning_[c % 2];
    program_.transpose(turned.all(), set.x.column_range(static_cast<uint32_t>(c * kTile), kTile));
    program_.tensor_copy(Engine::kDve, set.columns[c].all(), turned.all());
  }
  for (size_t u = 0; u < set.units.size(); ++u) {
    const Tile sum = bank();
    for (size_t c = 0; c < set.columns.size(); ++c) {
      program_.matmul(sum.column_range(0, kTile),
                      w1_[c].column_range(static_cast<uint32_t>(u * kTile), kTile),
                      set.columns[c].all(), c > 0);
    }
    program_.activate(set.units[u].all(), NEURON_ACT_GELU, sum.column_range(0, kTile),
                      {.bias = b1_[u].all()});
  }
  for (uint64_t column = 0; column < shape_.outputs; column += kWide) {
    const auto first = static_cast<uint32_t>(column);
    const auto count = static_cast<uint32_t>(std::min(kWide, shape_.outputs - column));
    const Tile sum = bank();
    for (size_t u = 0; u < set.units.size(); ++u) {
      program_.matmul(sum.column_range(0, count), set.units[u].all(),
                      w2_[u].column_range(first, count), u > 0);
    }
    program_.tensor_tensor(Engine::kDve, set.y.column_range(first, count),
                           sum.column_range(0, count), NEURON_ALU_ADD,
                           b2_.column_range(first, count));
  }
  program_.dma(Engine::kPool, y_.block(row, kTile, 0, shape_.outputs), set.y.all());
}

Neff GeluMlp::build() {
  const auto [rows, inputs, hidden, outputs] = shape_;
  if (rows == 0 || inputs == 0 || hidden == 0 || outputs == 0 || rows % kTile || inputs % kTile ||
      hidden % kTile || (dtype_ != NEURON_DTYPE_F32 && dtype_ != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "gelu_mlp \"{}\" of {} rows, {} inputs, {} hidden units and {} outputs, {}; "
                "expected f32 or bf16, rows, inputs and hidden units in multiples of 128",
                program_.name(), rows, inputs, hidden, outputs, isa::dtype_name(dtype_));
  }
  x_ = program_.input("x", dtype_, {rows, inputs});
  y_ = program_.output("y", dtype_, {rows, outputs});
  program_.section("weights");
  w1_ = load_matrix("w1", inputs, hidden);
  w2_ = load_matrix("w2", hidden, outputs);
  const Buffer b1 = program_.input("b1", NEURON_DTYPE_F32, {hidden});
  const Buffer b2 = program_.input("b2", NEURON_DTYPE_F32, {outputs});
  for (uint64_t u = 0; u < hidden; u += kTile) {
    b1_.push_back(program_.sbuf("b1", kTile, 1, NEURON_DTYPE_F32));
    program_.dma(Engine::kActivation, b1_.back().all(), b1.pattern(u, {1, kTile}, {1, 1}));
  }
  b2_ = program_.sbuf("b2", kTile, static_cast<uint32_t>(outputs), NEURON_DTYPE_F32);
  program_.dma(Engine::kActivation, b2_.all(), b2.broadcast(kTile));
  for (Set& set : sets_) {
    set.x = program_.sbuf("x", kTile, static_cast<uint32_t>(inputs), dtype_);
    set.y = program_.sbuf("y", kTile, static_cast<uint32_t>(outputs), dtype_);
    for (uint64_t c = 0; c < inputs; c += kTile) {
      set.columns.push_back(program_.sbuf("x transposed", kTile, kTile, dtype_));
    }
    for (uint64_t u = 0; u < hidden; u += kTile) {
      set.units.push_back(program_.sbuf("hidden units", kTile, kTile, dtype_));
    }
  }
  for (Tile& bank : banks_) bank = program_.psum("sum", kTile, kWide);
  for (Tile& turned : turning_) turned = program_.psum("x transposed", kTile, kTile, dtype_);
  for (uint64_t row = 0; row < rows; row += kTile) this->rows(row);
  return program_.build();
}

}  // namespace

Neff gelu_mlp(const std::string& name, uint8_t dtype, const MlpShape& shape) {
  return GeluMlp(name, dtype, shape).build();
}

}  // namespace neuron::kernels
