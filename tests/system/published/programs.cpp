// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/programs.h"

#include <algorithm>
#include <array>
#include <bit>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/row_tiles.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::published {
namespace {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

constexpr uint8_t kF32 = NEURON_DTYPE_F32, kBf16 = NEURON_DTYPE_BF16;
constexpr uint8_t kGeneration = 3;  // trn2
constexpr uint32_t kParts = NEURON_PARTITIONS, kHigh = NEURON_PE_MAX_M, kWide = NEURON_PE_MAX_N;

// Tiles that are used in turn.
class Ring {
 public:
  Ring(Program& program, const char* name, uint32_t count, uint32_t columns, uint8_t dtype) {
    for (uint32_t i = 0; i < count; ++i) {
      tiles_.push_back(program.sbuf(name, kParts, columns, dtype));
    }
  }
  const Tile& next() { return tiles_[next_++ % tiles_.size()]; }

 private:
  std::vector<Tile> tiles_;
  size_t next_ = 0;
};

// The operands in HBM are temporaries: addresses that are known when a transfer is generated.
class Product {
 public:
  Product(const char* name, uint8_t dtype, uint64_t m, uint64_t k, uint64_t n)
      : program(name, kGeneration), m(m), k(k), n(n), dtype_(dtype) {
    lhs = program.temporary("lhs_t", dtype, {k, m});
    rhs = program.temporary("rhs", dtype, {k, n});
    result_ = program.output("result", dtype, {m, n});
    for (Tile& bank : banks_) bank = program.psum("sum", kHigh, kWide);
    for (Tile& out : outputs_) out = program.sbuf("output", kHigh, kWide, dtype);
  }

  const Tile& load(Ring& ring, const Buffer& from, uint64_t deep, uint64_t column) {
    const Tile& tile = ring.next();
    program.dma_generate(tile.all(), from.block(deep * kParts, kParts, column, tile.columns));
    return tile;
  }
  const Tile& bank() { return banks_[next_bank_++ % banks_.size()]; }
  void store(const Tile& sum, uint64_t row, uint64_t column) {
    const Tile& out = outputs_[next_output_++ % outputs_.size()];
    program.tensor_copy(Engine::kDve, out.all(), sum.all());
    program.dma(Engine::kSp, result_.block(row, kHigh, column, kWide), out.all());
  }

  Program program;
  const uint64_t m, k, n;
  Buffer lhs, rhs;

 private:
  uint8_t dtype_;
  Buffer result_;
  std::array<Tile, NEURON_PSUM_BANKS> banks_;
  std::array<Tile, 2> outputs_;
  size_t next_bank_ = 0, next_output_ = 0;
};

// Each multiplication loads its moving tile; the stationary ones are loaded for every
// `columns_kept` columns of tiles.
void by_tiles(Product& p, Ring& lhs, Ring& rhs, uint64_t columns_kept) {
  std::vector<const Tile*> left(p.k / kParts);
  for (uint64_t row = 0; row < p.m; row += kHigh) {
    for (uint64_t column = 0; column < p.n; column += kWide) {
      const Tile& sum = p.bank();
      for (uint64_t deep = 0; deep < left.size(); ++deep) {
        if (column / kWide % columns_kept == 0) left[deep] = &p.load(lhs, p.lhs, deep, row);
        const Tile& right = p.load(rhs, p.rhs, deep, column);
        p.program.matmul(sum.all(), left[deep]->all(), right.all(), deep > 0);
      }
      p.store(sum, row, column);
    }
  }
}

// How many tiles the compiler kept is not published: here the stationary ones exist twice.
// Blocks of 1024 x 1024, whose operands are loaded `left_width` and `right_width` columns at a
// time.
void by_blocks(Product& p, Ring& lhs, Ring& rhs, uint32_t left_width, uint32_t right_width) {
  constexpr uint32_t kBlock = 1024;
  const uint64_t depth = p.k / kParts;
  const auto panel = [&](Ring& ring, const Buffer& from, uint64_t column, uint32_t width) {
    std::vector<const Tile*> tiles;
    for (uint64_t at = 0; at < kBlock; at += width) {
      for (uint64_t deep = 0; deep < depth; ++deep) {
        tiles.push_back(&p.load(ring, from, deep, column + at));
      }
    }
    return tiles;
  };
  for (uint64_t row = 0; row < p.m; row += kBlock) {
    const auto left = panel(lhs, p.lhs, row, left_width);
    for (uint64_t column = 0; column < p.n; column += kBlock) {
      const auto right = panel(rhs, p.rhs, column, right_width);
      for (uint32_t m = 0; m < kBlock; m += kHigh) {
        for (uint32_t n = 0; n < kBlock; n += kWide) {
          const Tile& sum = p.bank();
          for (uint64_t deep = 0; deep < depth; ++deep) {
            p.program.matmul(
                sum.all(), left[m / left_width * depth + deep]->column_range(m % left_width, kHigh),
                right[n / right_width * depth + deep]->column_range(n % right_width, kWide),
                deep > 0);
          }
          p.store(sum, row + m, column + n);
        }
      }
    }
  }
}

// Columns of the stationary and the moving tile, and the depth, of each section of `matmuls`.
struct Section {
  uint32_t high, wide, deep;
};
std::array<Section, 4> sections_of(bool mixed) {
  const Section full{kHigh, kWide, kParts};
  if (!mixed) return {full, full, full, full};
  return {Section{32, kWide, kParts}, {kHigh, 64, kParts}, {kHigh, kWide, 32}, full};
}
constexpr uint32_t kMatmulsOfSection = 512;

// One round of a work; columns of `to` are written.
struct WorkTiles {
  Tile from, to, bias;
};
void round_of(Program& program, Work work, uint32_t parts, const WorkTiles& tiles) {
  const auto from = tiles.from.row_range(0, parts), to = tiles.to.row_range(0, parts);
  const auto bias = tiles.bias.row_range(0, parts);
  switch (work) {
    case Work::kDependent:
      program.activate(bias, NEURON_ACT_COPY, bias);
      break;
    case Work::kFused:
    case Work::kFusedHalf:
      program.activate(to, NEURON_ACT_EXP, from, {.scale = 0.5F, .bias = bias});
      break;
    case Work::kUnfused:
      program.activate(to, NEURON_ACT_COPY, from, {.scale = 0.5F});
      program.activate(to, NEURON_ACT_COPY, to, {.bias = bias});
      program.activate(to, NEURON_ACT_EXP, to);
      break;
    case Work::kCopy:
      program.tensor_copy(Engine::kDve, to, from);
      break;
    case Work::kReciprocal:
      program.reciprocal(to, from);
      break;
    case Work::kScalarRsqrt:
      program.activate(to, NEURON_ACT_RSQRT, from);
      break;
    case Work::kPoolRsqrt:
      program.tensor_scalar(Engine::kPool, to, from, NEURON_ALU_RSQRT, {});
      break;
  }
}

}  // namespace

Neff matmul_4096(Loads loads) {
  constexpr uint64_t kSize = 4096;
  Product p("matmul", kBf16, kSize, kSize, kSize);
  switch (loads) {
    case Loads::kTiles: {
      Ring lhs(p.program, "lhs_t", 64, kHigh, kBf16), rhs(p.program, "rhs", 64, kWide, kBf16);
      by_tiles(p, lhs, rhs, 3);
      break;
    }
    case Loads::kBlocks: {
      Ring lhs(p.program, "lhs_t", 512, kHigh, kBf16), rhs(p.program, "rhs", 64, kWide, kBf16);
      by_blocks(p, lhs, rhs, kHigh, kWide);
      break;
    }
    case Loads::kRows: {
      Ring lhs(p.program, "lhs_t", 64, 1024, kBf16), rhs(p.program, "rhs", 32, 1024, kBf16);
      by_blocks(p, lhs, rhs, 1024, 1024);
      break;
    }
  }
  return p.program.build();
}

Neff matmul_f32(bool hoisted) {
  constexpr uint64_t kK = 8192, kN = 8192;
  Product p("matmul", kF32, kMatmulF32Rows, kK, kN);
  Ring lhs(p.program, "lhs_t", 80, kHigh, kF32), rhs(p.program, "rhs", 64, kWide, kF32);
  by_tiles(p, lhs, rhs, hoisted ? kN / kWide : 1);
  return p.program.build();
}

Neff matmuls(bool mixed) {
  Program program("matmuls", kGeneration);
  const Buffer lhs = program.input("lhs_t", kBf16, {kParts, kHigh});
  const Buffer rhs = program.input("rhs", kBf16, {kParts, kWide});
  const Buffer result = program.output("result", kF32, {kHigh, kWide});
  const Tile left = program.sbuf("lhs_t", kParts, kHigh, kBf16);
  const Tile right = program.sbuf("rhs", kParts, kWide, kBf16);
  const Tile out = program.sbuf("output", kHigh, kWide, kF32);
  program.dma(Engine::kSp, left.all(), lhs.all());
  program.dma(Engine::kSp, right.all(), rhs.all());
  Tile sum;
  for (const Section& section : sections_of(mixed)) {
    sum = program.psum("sum", kHigh, kWide);
    for (uint32_t i = 0; i < kMatmulsOfSection; ++i) {
      program.matmul(sum.at(0, section.high, 0, section.wide),
                     left.at(0, section.deep, 0, section.high),
                     right.at(0, section.deep, 0, section.wide));
    }
  }
  program.tensor_copy(Engine::kDve, out.all(), sum.all());
  program.dma(Engine::kSp, result.all(), out.all());
  return program.build();
}

double matmul_operations(bool mixed) {
  double operations = 0;
  for (const Section& section : sections_of(mixed)) {
    operations += 2.0 * kMatmulsOfSection * section.high * section.wide * section.deep;
  }
  return operations;
}

Neff transfers(const Transfers& t) {
  Program program("transfers", t.generation);
  const uint32_t columns = t.bytes / 4;
  const Buffer from = program.temporary("from", kF32, {t.rows, columns});
  const Buffer to = program.temporary("to", kF32, {t.rows, columns});
  constexpr uint32_t kTiles = 16, kTileBytes = 128 * 1024;  // of a partition
  std::vector<Tile> tiles(std::min(kTiles, kTileBytes / t.bytes));
  for (Tile& tile : tiles) tile = program.sbuf("tile", t.rows, columns, kF32);
  for (uint32_t i = 0; i < t.count; ++i) {
    const Tile& tile = tiles[i % tiles.size()];
    const bool generated = t.stores && i % 2 == 1;
    if (generated) {
      program.dma_generate(tile.all(), from.all());
      program.dma_generate(to.all(), tile.all());
      continue;
    }
    program.dma(Engine::kSp, tile.all(), from.all());
    if (t.stores) program.dma(Engine::kActivation, to.all(), tile.all());
  }
  return program.build();
}

Neff work(Work work, uint32_t rounds) {
  constexpr uint32_t kColumns = 2048;
  Program program("work");
  const uint32_t parts = work == Work::kFusedHalf ? kParts / 2 : kParts;
  const WorkTiles tiles{.from = program.sbuf("from", kParts, kColumns, kF32),
                        .to = program.sbuf("to", kParts, kColumns, kF32),
                        .bias = program.sbuf("bias", kParts, 1, kF32)};
  for (const Tile& tile : {tiles.from, tiles.bias}) {
    program.memset(Engine::kPool, tile.all(), std::bit_cast<uint32_t>(1.0F));
  }
  for (uint32_t round = 0; round < rounds; ++round) round_of(program, work, parts, tiles);
  return program.build();
}

Neff layer_norm_by_sums() {
  constexpr uint32_t kRows = 300, kColumns = 1000;
  Program program("layernorm");
  const Buffer x = program.input("x", kF32, {kRows, kColumns});
  const Buffer y = program.output("y", kF32, {kRows, kColumns});
  std::array<Tile, 2> columns;
  const char* names[] = {"weight", "bias"};
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i] = program.sbuf(names[i], kParts, kColumns, kF32);
    program.dma(Engine::kActivation, columns[i].all(),
                program.input(names[i], kF32, {kColumns}).broadcast(kParts));
  }
  const Tile epsilon = program.sbuf("epsilon", kParts, 1, kF32);
  program.memset(Engine::kPool, epsilon.all(), std::bit_cast<uint32_t>(kernels::kNormEpsilon));
  struct Set {
    Tile x, squares, mean, variance;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set = {program.sbuf("x", kParts, kColumns, kF32),
           program.sbuf("squares", kParts, kColumns, kF32), program.sbuf("mean", kParts, 1, kF32),
           program.sbuf("variance", kParts, 1, kF32)};
  }
  constexpr float kShare = 1.0F / kColumns;
  kernels::for_row_tiles(program, kRows, [&](const kernels::RowTile& rows) {
    const Set& set = sets[rows.set];
    const auto of = [&](const Tile& tile) { return rows.of(tile); };
    program.dma(Engine::kSp, of(set.x), rows.of(x));
    program.tensor_reduce(of(set.mean), NEURON_ALU_ADD, of(set.x));
    program.tensor_scalar(Engine::kDve, of(set.mean), of(set.mean), NEURON_ALU_MUL, kShare);
    program.tensor_scalar(Engine::kDve, of(set.x), of(set.x), NEURON_ALU_SUB, of(set.mean));
    program.tensor_tensor(Engine::kDve, of(set.squares), of(set.x), NEURON_ALU_MUL, of(set.x));
    program.tensor_reduce(of(set.variance), NEURON_ALU_ADD, of(set.squares));
    program.activate(of(set.variance), NEURON_ACT_RSQRT, of(set.variance),
                     {.scale = kShare, .bias = of(epsilon)});
    program.tensor_scalar(Engine::kDve, of(set.x), of(set.x), NEURON_ALU_MUL, of(set.variance));
    program.tensor_tensor(Engine::kDve, of(set.x), of(set.x), NEURON_ALU_MUL, of(columns[0]));
    program.tensor_tensor(Engine::kDve, of(set.x), of(set.x), NEURON_ALU_ADD, of(columns[1]));
    program.dma(Engine::kPool, rows.of(y), of(set.x));
  });
  return program.build();
}

}  // namespace neuron::published
