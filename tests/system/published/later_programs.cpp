// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/later_programs.h"

#include <array>
#include <bit>

#include "driver/isa/instruction.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::published {
namespace {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::ScaledAccess;
using builder::Tile;

constexpr uint8_t kF32 = NEURON_DTYPE_F32, kBf16 = NEURON_DTYPE_BF16, kU8 = NEURON_DTYPE_U8;
constexpr uint8_t kX4 = NEURON_DTYPE_F8E4FNX4;
constexpr uint32_t kParts = NEURON_PARTITIONS, kHigh = NEURON_PE_MAX_M, kWide = NEURON_PE_MAX_N;
constexpr uint32_t kOneScale = NEURON_MX_SCALE_BIAS;

uint8_t dtype_of(LaterWork work) {
  switch (work) {
    case LaterWork::kVectorBf16:
    case LaterWork::kScalarBf16:
    case LaterWork::kQuantize:
      return kBf16;
    case LaterWork::kVectorF8:
      return NEURON_DTYPE_F8E4;
    default:
      return kF32;
  }
}

Tile filled(Program& program, uint32_t columns, uint8_t dtype, uint32_t bits = 0) {
  const Tile tile = program.sbuf("from", kParts, columns, dtype);
  program.memset(Engine::kPool, tile.all(), bits);
  return tile;
}

ScaledAccess scaled(Program& program, uint32_t columns) {
  return {filled(program, columns, kX4).all(), filled(program, columns, kU8, kOneScale).all()};
}

void on_columns(Program& program, LaterWork work, uint32_t rounds) {
  const uint8_t dtype = dtype_of(work);
  const Tile from = filled(program, kLaterColumns, dtype);
  const Tile to = program.sbuf("to", kParts, kLaterColumns, dtype);
  const ScaledAccess codes = work == LaterWork::kQuantize
                                 ? scaled(program, kLaterColumns / NEURON_MX_CODES)
                                 : ScaledAccess{};
  const auto number = [](float value) { return builder::ScalarArgument(value); };
  for (uint32_t round = 0; round < rounds; ++round) {
    switch (work) {
      case LaterWork::kScalarF32:
      case LaterWork::kScalarBf16:
        program.tensor_copy(Engine::kActivation, to.all(), from.all());
        break;
      case LaterWork::kScalarExponential:
        program.activate(to.all(), NEURON_ACT_EXP, from.all());
        break;
      case LaterWork::kVectorExponential:
        program.exponential(to.all(), from.all());
        break;
      case LaterWork::kQuantize:
        program.quantize_mx(codes, from.all());
        break;
      case LaterWork::kRandom:
        program.random_uniform(to.all(), number(0), number(1));
        break;
      default:
        program.tensor_copy(Engine::kDve, to.all(), from.all());
        break;
    }
  }
}

void on_array(Program& program, LaterWork work, uint32_t rounds) {
  const bool mx = work == LaterWork::kProductMx, transposes = work == LaterWork::kTranspose;
  const uint8_t dtype = work == LaterWork::kProductF32 ? kF32 : kBf16;
  ScaledAccess left, right;
  if (mx) {
    left = scaled(program, kHigh);
    right = scaled(program, kWide);
    program.load_weights_mx(left);
  } else {
    left.elements = filled(program, kHigh, dtype).all();
    right.elements = filled(program, kWide, dtype).all();
    program.load_weights(left.elements);
  }
  std::array<Tile, 4> banks;
  for (Tile& bank : banks) {
    bank = program.psum("to", kHigh, transposes ? kHigh : kWide, transposes ? kBf16 : kF32);
  }
  for (uint32_t round = 0; round < rounds; ++round) {
    const Tile& to = banks[round % banks.size()];
    if (transposes) {
      program.transpose(to.all(), left.elements);
    } else if (mx) {
      program.multiply_mx(to.all(), right, false, round == 0);
    } else {
      program.multiply(to.all(), right.elements, false, round == 0);
    }
  }
}

void of_rows(Program& program, bool adds, uint32_t rounds) {
  constexpr uint32_t kColumns = 8192;
  const Buffer table = program.temporary("rows", kF32, {kParts, kColumns});
  const Tile index = filled(program, 1, NEURON_DTYPE_U32);
  std::array<Tile, 4> tiles;
  for (Tile& tile : tiles) tile = filled(program, kColumns, kF32);
  for (uint32_t round = 0; round < rounds; ++round) {
    program.dma_gather(tiles[round % tiles.size()].all(), table, index.all(), {.accumulate = adds});
  }
}

}  // namespace

kernels::Neff later_work(LaterWork work, uint32_t rounds, uint8_t generation) {
  Program program("later_work", generation);
  switch (work) {
    case LaterWork::kProductF32:
    case LaterWork::kProductBf16:
    case LaterWork::kProductMx:
    case LaterWork::kTranspose:
      on_array(program, work, rounds);
      break;
    case LaterWork::kGather:
    case LaterWork::kGatherAdd:
      of_rows(program, work == LaterWork::kGatherAdd, rounds);
      break;
    default:
      on_columns(program, work, rounds);
      break;
  }
  return program.build();
}

double operations_of(LaterWork work) {
  const double codes = work == LaterWork::kProductMx ? NEURON_MX_CODES : 1;
  return 2 * codes * kParts * kHigh * kWide;
}

}  // namespace neuron::published
