// SPDX-License-Identifier: Apache-2.0
// result = transpose(lhs_t) * rhs, in tiles of 128 x 128 (stationary) and 128 x 512 (moving).
//
// A panel of each operand, all of K deep, stays in SBUF while the blocks that need it are computed;
// the panels are as large as SBUF allows, for small matrices everything. K is the innermost loop
// and accumulates in PSUM. Each loaded stationary tile multiplies a group of up to four moving
// tiles, in four of the eight PSUM banks; the other four are emptied meanwhile, by Activation and
// DVE in turn.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/kernels/kernels.h"
#include "tools/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr std::uint64_t kDeep = NEURON_PARTITIONS;  // Rows of K in one tile
constexpr std::uint64_t kHigh = NEURON_PE_MAX_M;
constexpr std::uint64_t kWide = NEURON_PE_MAX_N;
constexpr std::uint64_t kGroup = 4;    // Moving tiles for one stationary tile
constexpr std::uint64_t kOutputs = 4;  // Tiles on their way to HBM
// Bytes of a partition for panels; the rest of SBUF holds outputs.
constexpr std::uint64_t kPanelBytes = NEURON_V2_SBUF_PARTITION_BYTES - kOutputs * kWide * 4 - 4096;

// Columns of the panels: halved until both fit, the stationary one's first.
struct Panels {
  std::uint64_t stationary, moving;
};

Panels choose_panels(const MatmulShape& shape, std::uint64_t element) {
  Panels panels{shape.m, shape.n};
  const std::uint64_t tiles = shape.k / kDeep;
  const auto halved = [](std::uint64_t columns, std::uint64_t unit) {
    return (columns / unit + 1) / 2 * unit;
  };
  while (tiles * (panels.stationary + panels.moving) * element > kPanelBytes) {
    if (panels.stationary > kHigh && panels.stationary >= panels.moving) {
      panels.stationary = halved(panels.stationary, kHigh);
    } else if (panels.moving > kWide) {
      panels.moving = halved(panels.moving, kWide);
    } else if (panels.stationary > kHigh) {
      panels.stationary = halved(panels.stationary, kHigh);
    } else {
      break;  // The allocator says what is missing
    }
  }
  return panels;
}

class Matmul {
 public:
  Matmul(const std::string& name, std::uint8_t dtype, const MatmulShape& shape)
      : program_(name), dtype_(dtype), shape_(shape) {}

  Neff build();

 private:
  std::vector<Tile> allocate_panel(const char* name, std::uint64_t columns);
  void load(const std::vector<Tile>& panel, const Buffer& from, std::uint64_t column,
            std::uint64_t columns, Engine owner, std::size_t k);
  void compute(const std::vector<Tile>& lhs, const std::vector<Tile>& rhs, std::uint64_t row,
               std::uint64_t rows, std::uint64_t column, std::uint64_t columns);
  void store(const Tile& bank, std::uint64_t row, std::uint64_t column);

  Program program_;
  std::uint8_t dtype_;
  MatmulShape shape_;
  Buffer result_;
  std::array<Tile, NEURON_PSUM_BANKS> banks_;
  std::array<Tile, kOutputs> outputs_;
  std::uint64_t next_bank_ = 0;
  std::uint64_t next_output_ = 0;
};

std::vector<Tile> Matmul::allocate_panel(const char* name, std::uint64_t columns) {
  std::vector<Tile> panel;
  for (std::uint64_t k = 0; k < shape_.k; k += kDeep) {
    panel.push_back(program_.sbuf(name, kDeep, static_cast<std::uint32_t>(columns), dtype_));
  }
  return panel;
}

void Matmul::load(const std::vector<Tile>& panel, const Buffer& from, std::uint64_t column,
                  std::uint64_t columns, Engine owner, std::size_t k) {
  program_.dma(owner, panel[k].column_range(0, static_cast<std::uint32_t>(columns)),
               from.block(k * kDeep, kDeep, column, columns));
}

void Matmul::store(const Tile& bank, std::uint64_t row, std::uint64_t column) {
  const Tile& out = outputs_[next_output_ % kOutputs];
  if (next_output_++ % 2 == 0) {
    program_.activate(out.all(), NEURON_ACT_COPY, bank.all());
  } else {
    program_.tensor_copy(Engine::kDve, out.all(), bank.all());
  }
  // Pool computes nothing here, so a store that waits for its copy holds up nobody.
  program_.dma(Engine::kPool, result_.block(row, kHigh, column, kWide), out.all());
}

void Matmul::compute(const std::vector<Tile>& lhs, const std::vector<Tile>& rhs, std::uint64_t row,
                     std::uint64_t rows, std::uint64_t column, std::uint64_t columns) {
  for (std::uint64_t n = 0; n < columns; n += kGroup * kWide) {
    const std::uint64_t group = std::min(kGroup, (columns - n) / kWide);
    for (std::uint64_t m = 0; m < rows; m += kHigh) {
      program_.section("tile_" + std::to_string(row + m) + "_" + std::to_string(column + n));
      std::array<const Tile*, kGroup> banks{};
      for (std::uint64_t g = 0; g < group; ++g) banks[g] = &banks_[next_bank_++ % banks_.size()];
      for (std::size_t k = 0; k < lhs.size(); ++k) {
        program_.load_weights(lhs[k].column_range(static_cast<std::uint32_t>(m), kHigh));
        for (std::uint64_t g = 0; g < group; ++g) {
          program_.multiply(banks[g]->all(),
                            rhs[k].column_range(static_cast<std::uint32_t>(n + g * kWide), kWide),
                            k > 0, g == 0);
        }
      }
      for (std::uint64_t g = 0; g < group; ++g) store(*banks[g], row + m, column + n + g * kWide);
    }
  }
}

Neff Matmul::build() {
  if (shape_.m == 0 || shape_.k == 0 || shape_.n == 0 || shape_.m % kHigh || shape_.k % kDeep ||
      shape_.n % kWide || (dtype_ != NEURON_DTYPE_F32 && dtype_ != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "matmul \"{}\" of [{}, {}] x [{}, {}], {}; expected f32 or bf16, M and K multiples "
                "of 128, N a multiple of 512",
                program_.name(), shape_.m, shape_.k, shape_.k, shape_.n, isa::dtype_name(dtype_));
  }
  const Buffer lhs = program_.input("lhs_t", dtype_, {shape_.k, shape_.m});
  const Buffer rhs = program_.input("rhs", dtype_, {shape_.k, shape_.n});
  result_ = program_.output("result", dtype_, {shape_.m, shape_.n});
  const Panels panels = choose_panels(shape_, isa::dtype_bytes(dtype_));
  const std::vector<Tile> stationary = allocate_panel("panel of lhs_t", panels.stationary);
  const std::vector<Tile> moving = allocate_panel("panel of rhs", panels.moving);
  for (Tile& out : outputs_) out = program_.sbuf("output", kHigh, kWide, dtype_);
  for (Tile& bank : banks_) bank = program_.psum("sum", kHigh, kWide);

  for (std::uint64_t column = 0; column < shape_.n; column += panels.moving) {
    const std::uint64_t columns = std::min(panels.moving, shape_.n - column);
    for (std::uint64_t row = 0; row < shape_.m; row += panels.stationary) {
      const std::uint64_t rows = std::min(panels.stationary, shape_.m - row);
      program_.section("load_" + std::to_string(row) + "_" + std::to_string(column));
      // A tile of each in turn, so that the first product can start when two tiles have arrived.
      for (std::size_t k = 0; k < stationary.size(); ++k) {
        load(stationary, lhs, row, rows, Engine::kSp, k);
        if (row == 0) load(moving, rhs, column, columns, Engine::kSp, k);
      }
      compute(stationary, moving, row, rows, column, columns);
    }
  }
  return program_.build();
}

}  // namespace

Neff matmul(const std::string& name, std::uint8_t dtype, const MatmulShape& shape) {
  return Matmul(name, dtype, shape).build();
}

}  // namespace neuron::kernels
