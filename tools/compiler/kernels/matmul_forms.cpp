// SPDX-License-Identifier: Apache-2.0
// The same product as matmul.cpp in simpler forms, for comparison: one tile; tiles that each load
// their operands; stationary tiles hoisted out of the inner loop; blocks of the result that load
// each operand once. None of them is written to load while it computes.
#include <algorithm>

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

constexpr uint64_t kBlockRows = 4 * kHigh;
constexpr uint64_t kBlockColumns = 2 * kWide;

struct Product {
  Program program;
  uint8_t dtype;
  MatmulShape shape;
  Buffer lhs, rhs, result;

  Product(const std::string& name, uint8_t type, const MatmulShape& size)
      : program(name), dtype(type), shape(size) {
    lhs = program.input("lhs_t", dtype, {shape.k, shape.m});
    rhs = program.input("rhs", dtype, {shape.k, shape.n});
    result = program.output("result", dtype, {shape.m, shape.n});
  }

  std::vector<Tile> panel(const char* name, uint64_t columns) {
    std::vector<Tile> tiles;
    for (uint64_t k = 0; k < shape.k; k += kDeep) {
      tiles.push_back(program.sbuf(name, kDeep, static_cast<uint32_t>(columns), dtype));
    }
    return tiles;
  }
  void load(const std::vector<Tile>& panel, const Buffer& from, uint64_t column) {
    for (size_t k = 0; k < panel.size(); ++k) {
      program.dma(Engine::kSp, panel[k].all(),
                  from.block(k * kDeep, kDeep, column, panel[k].columns));
    }
  }
  // One tile of the result, from columns of both panels.
  void tile(const std::vector<Tile>& left, uint64_t m, const std::vector<Tile>& right, uint64_t n,
            uint64_t row, uint64_t column, const Tile& sum, const Tile& out) {
    for (size_t k = 0; k < left.size(); ++k) {
      program.matmul(sum.all(), left[k].column_range(static_cast<uint32_t>(m), kHigh),
                     right[k].column_range(static_cast<uint32_t>(n), kWide), k > 0);
    }
    program.tensor_copy(Engine::kDve, out.all(), sum.all());
    program.dma(Engine::kPool, result.block(row, kHigh, column, kWide), out.all());
  }

  void tiled();
  void hoisted();
  void blocked();
};

void Product::tiled() {
  const auto left = panel("lhs_t", kHigh), right = panel("rhs", kWide);
  const Tile sum = program.psum("sum", kHigh, kWide);
  const Tile out = program.sbuf("output", kHigh, kWide, dtype);
  for (uint64_t row = 0; row < shape.m; row += kHigh) {
    for (uint64_t column = 0; column < shape.n; column += kWide) {
      load(left, lhs, row);
      load(right, rhs, column);
      tile(left, 0, right, 0, row, column, sum, out);
    }
  }
}

void Product::hoisted() {
  const auto left = panel("lhs_t", kHigh), right = panel("rhs", kWide);
  const Tile sum = program.psum("sum", kHigh, kWide);
  const Tile out = program.sbuf("output", kHigh, kWide, dtype);
  for (uint64_t row = 0; row < shape.m; row += kHigh) {
    load(left, lhs, row);
    for (uint64_t column = 0; column < shape.n; column += kWide) {
      load(right, rhs, column);
      tile(left, 0, right, 0, row, column, sum, out);
    }
  }
}

void Product::blocked() {
  const uint64_t high = std::min(kBlockRows, shape.m), wide = std::min(kBlockColumns, shape.n);
  const auto left = panel("lhs_t", high), right = panel("rhs", wide);
  const Tile sum = program.psum("sum", kHigh, kWide);
  const Tile out = program.sbuf("output", kHigh, kWide, dtype);
  for (uint64_t row = 0; row < shape.m; row += high) {
    load(left, lhs, row);
    for (uint64_t column = 0; column < shape.n; column += wide) {
      load(right, rhs, column);
      for (uint64_t m = 0; m < high; m += kHigh) {
        for (uint64_t n = 0; n < wide; n += kWide) {
          tile(left, m, right, n, row + m, column + n, sum, out);
        }
      }
    }
  }
}

}  // namespace

Neff matmul_form(const std::string& name, uint8_t dtype, const MatmulShape& shape,
                 MatmulForm form) {
  const bool basic = form == MatmulForm::kBasic;
  const bool blocks =
      form != MatmulForm::kBlocked || (shape.m % std::min(kBlockRows, shape.m) == 0 &&
                                       shape.n % std::min(kBlockColumns, shape.n) == 0);
  if (shape.m == 0 || shape.k == 0 || shape.n == 0 ||
      (basic ? shape.m > kHigh || shape.k > kDeep || shape.n > kWide
             : shape.m % kHigh || shape.k % kDeep || shape.n % kWide || !blocks)) {
    return fail(NRT_INVALID,
                "matmul \"{}\" of [{}, {}] x [{}, {}]; expected up to [128, 128] x [128, 512] for "
                "the basic form, multiples of 128 (M, K) and 512 (N) for the others, whole blocks "
                "of 512 x 1024 for the blocked one",
                name, shape.m, shape.k, shape.k, shape.n);
  }
  Product product(name, dtype, shape);
  switch (form) {
    case MatmulForm::kBasic: {
      const auto parts = static_cast<uint32_t>(shape.k);
      const auto high = static_cast<uint32_t>(shape.m);
      const auto wide = static_cast<uint32_t>(shape.n);
      const Tile left = product.program.sbuf("lhs_t", parts, high, dtype);
      const Tile right = product.program.sbuf("rhs", parts, wide, dtype);
      const Tile sum = product.program.psum("sum", high, wide);
      const Tile out = product.program.sbuf("output", high, wide, dtype);
      product.program.dma(Engine::kSp, left.all(), product.lhs.all());
      product.program.dma(Engine::kSp, right.all(), product.rhs.all());
      product.program.matmul(sum.all(), left.all(), right.all());
      product.program.tensor_copy(Engine::kDve, out.all(), sum.all());
      product.program.dma(Engine::kPool, product.result.all(), out.all());
      break;
    }
    case MatmulForm::kTiled:
      product.tiled();
      break;
    case MatmulForm::kHoisted:
      product.hoisted();
      break;
    case MatmulForm::kBlocked:
      product.blocked();
      break;
  }
  return product.program.build();
}

}  // namespace neuron::kernels
