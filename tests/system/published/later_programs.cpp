// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/later_programs.h"

#include <array>
#include <cstring>
#include <vector>

#include "driver/isa/instruction.h"
#include "driver/isa/sparsity.h"
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
    case LaterWork::kVectorBf16Strided:
    case LaterWork::kVectorBf16FromPsum:
    case LaterWork::kMaximumBf16:
    case LaterWork::kScalarBf16:
    case LaterWork::kQuantize:
    case LaterWork::kProductBf16:
    case LaterWork::kProductSparse:
    case LaterWork::kTranspose:
    case LaterWork::kLoadWeights:
    case LaterWork::kDmaCopy:
    case LaterWork::kDmaTranspose:
    case LaterWork::kDmaTransposeOnChip:
      return kBf16;
    case LaterWork::kVectorF8:
    case LaterWork::kProductDoubleRow:
      return NEURON_DTYPE_F8E4;
    case LaterWork::kProductF8:
      return NEURON_DTYPE_F8E3;
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
  constexpr uint32_t kFar = 8;  // Columns of f32 between elements that are 32 bytes apart
  const uint8_t dtype = dtype_of(work);
  const bool far = work == LaterWork::kVectorF32Far;
  const Tile from = filled(program, kLaterColumns * (far ? kFar : 2), dtype);
  const Tile to = program.sbuf("to", kParts, kLaterColumns, dtype);
  const builder::TileAccess dense = from.column_range(0, kLaterColumns);
  const ScaledAccess codes = work == LaterWork::kQuantize
                                 ? scaled(program, kLaterColumns / NEURON_MX_CODES)
                                 : ScaledAccess{};
  Tile bank;
  if (work == LaterWork::kVectorBf16FromPsum) {
    bank = program.psum("from", kParts, kLaterColumns / 2, dtype);
    program.memset(Engine::kDve, bank.all(), 0);
  }
  const auto number = [](float value) { return builder::ScalarArgument(value); };
  for (uint32_t round = 0; round < rounds; ++round) {
    switch (work) {
      case LaterWork::kScalarF32:
      case LaterWork::kScalarBf16:
        program.tensor_copy(Engine::kActivation, to.all(), dense);
        break;
      case LaterWork::kPoolF32:
        program.tensor_copy(Engine::kPool, to.all(), dense);
        break;
      case LaterWork::kVectorBf16Strided:
        program.tensor_copy(Engine::kDve, to.all(), from.strided(0, kLaterColumns, 2));
        break;
      case LaterWork::kVectorF32Far:
        program.tensor_copy(Engine::kDve, to.all(), from.strided(0, kLaterColumns, kFar));
        break;
      case LaterWork::kVectorBf16FromPsum:
        program.tensor_copy(Engine::kDve, to.column_range(0, kLaterColumns / 2), bank.all());
        break;
      case LaterWork::kMaximumF32:
      case LaterWork::kMaximumBf16:
        program.tensor_tensor(Engine::kDve, to.all(), dense, NEURON_ALU_MAX, dense);
        break;
      case LaterWork::kScalarExponential:
        program.activate(to.all(), NEURON_ACT_EXP, dense);
        break;
      case LaterWork::kVectorExponential:
        program.exponential(to.all(), dense);
        break;
      case LaterWork::kQuantize:
        program.quantize_mx(codes, dense);
        break;
      case LaterWork::kRandom:
        program.random_uniform(to.all(), number(0), number(1));
        break;
      default:
        program.tensor_copy(Engine::kDve, to.all(), dense);
        break;
    }
  }
}

// Both sides of a product, as many rows of K deep as it takes at a time.
struct Sides {
  ScaledAccess left, right;
  builder::SparseAccess sparse;
};
uint32_t rows_at_a_time(LaterWork work) {
  return work == LaterWork::kProductSparse      ? isa::sparsity_of(NEURON_SPARSE_4_OF_16).slots
         : work == LaterWork::kProductDoubleRow ? 2
                                                : 1;
}

// Each of four neighbouring rows has another position among its sixteen.
Tile positions(Program& program) {
  constexpr uint32_t kWords = kHigh / 4, kOnes = 0x1111, kSlots = 4;
  std::vector<uint8_t> bytes(size_t{kParts} * kWords * sizeof(uint16_t));
  for (size_t i = 0; i < bytes.size() / sizeof(uint16_t); ++i) {
    const auto word = static_cast<uint16_t>(kOnes * kSlots * (i / kWords % 4));
    std::memcpy(&bytes[i * sizeof word], &word, sizeof word);
  }
  const Tile tile = program.sbuf("positions", kParts, kWords, NEURON_DTYPE_U16);
  program.dma(Engine::kSp, tile.all(),
              program.constant("positions", NEURON_DTYPE_U16, {kParts, kWords}, bytes).all());
  return tile;
}

Sides sides_of(Program& program, LaterWork work) {
  if (work == LaterWork::kProductMx) {
    return {.left = scaled(program, kHigh), .right = scaled(program, kWide), .sparse = {}};
  }
  const uint8_t dtype = dtype_of(work);
  const uint32_t deep = rows_at_a_time(work);
  Sides sides;
  sides.right.elements = filled(program, deep * kWide, dtype).all();
  if (deep > 1) sides.right.elements = sides.right.elements.split(deep);
  if (work == LaterWork::kProductSparse) {
    sides.sparse = {filled(program, kHigh, dtype).all(), positions(program).all(),
                    NEURON_SPARSE_4_OF_16};
    return sides;
  }
  sides.left.elements = filled(program, deep * kHigh, dtype).all();
  if (deep > 1) sides.left.elements = sides.left.elements.split(deep);
  return sides;
}

void on_array(Program& program, LaterWork work, uint32_t rounds) {
  const bool transposes = work == LaterWork::kTranspose || work == LaterWork::kTransposeF32;
  const uint8_t dtype = transposes ? dtype_of(work) : kF32;
  const builder::PeOptions options{.double_row = work == LaterWork::kProductDoubleRow,
                                   .onezero_moving = work == LaterWork::kProductOneZero};
  const Sides sides = sides_of(program, work);
  if (work == LaterWork::kProductMx) {
    program.load_weights_mx(sides.left);
  } else if (work != LaterWork::kProductSparse) {
    program.load_weights(sides.left.elements, options);
  }
  std::array<Tile, 4> banks;
  for (Tile& bank : banks) bank = program.psum("to", kHigh, transposes ? kHigh : kWide, dtype);
  for (uint32_t round = 0; round < rounds; ++round) {
    const Tile& to = banks[round % banks.size()];
    switch (work) {
      case LaterWork::kTranspose:
      case LaterWork::kTransposeF32:
        program.transpose(to.all(), sides.left.elements);
        break;
      case LaterWork::kLoadWeights:
        program.load_weights(sides.left.elements);
        break;
      case LaterWork::kProductMx:
        program.multiply_mx(to.all(), sides.right, false, round == 0);
        break;
      case LaterWork::kProductSparse:
        program.matmul_sparse(to.all(), sides.sparse, sides.right.elements);
        break;
      default:
        program.multiply(to.all(), sides.right.elements, false, round == 0, options);
        break;
    }
  }
}

void by_dma(Program& program, LaterWork work, uint32_t rounds) {
  constexpr uint32_t kWidth = 2048;
  const Buffer rows = program.temporary("rows", kBf16, {kParts, kWidth});
  const Buffer columns = program.temporary("columns", kBf16, {kWidth, kParts});
  std::array<Tile, 4> tiles;
  for (Tile& tile : tiles) tile = filled(program, kWidth, kBf16);
  const Tile from = filled(program, kParts, kBf16);
  builder::ComputeOptions transpose{.operation = NEURON_DMA_TRANSPOSE};
  for (uint32_t round = 0; round < rounds; ++round) {
    const Tile& to = tiles[round % tiles.size()];
    switch (work) {
      case LaterWork::kDmaCopy:
        program.dma(Engine::kSp, to.all(), rows.all());
        break;
      case LaterWork::kDmaTranspose:
        transpose.transpose_shape = {1, kWidth, kParts, 1};
        program.dma_compute(Engine::kSp, to.all(), {columns.all()}, transpose);
        break;
      case LaterWork::kDmaTransposeOnChip:
        transpose.transpose_shape = {1, kParts, kParts, 1};
        for (uint32_t first = 0; first < kWidth; first += kParts) {
          program.dma_compute(Engine::kSp, to.column_range(first, kParts), {from.all()}, transpose);
        }
        break;
      case LaterWork::kDmaThereAndBack:
        program.dma(Engine::kSp, to.at(0, 1, 0, 2), rows.block(0, 1, 0, 2));
        program.dma(Engine::kSp, rows.block(0, 1, 0, 2), to.at(0, 1, 0, 2));
        break;
      default:
        program.dma_generate(to.at(0, 1, 0, 2), rows.block(0, 1, 0, 2));
        break;
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
    case LaterWork::kProductF8:
    case LaterWork::kProductOneZero:
    case LaterWork::kProductMx:
    case LaterWork::kProductSparse:
    case LaterWork::kProductDoubleRow:
    case LaterWork::kTranspose:
    case LaterWork::kTransposeF32:
    case LaterWork::kLoadWeights:
      on_array(program, work, rounds);
      break;
    case LaterWork::kGather:
    case LaterWork::kGatherAdd:
      of_rows(program, work == LaterWork::kGatherAdd, rounds);
      break;
    case LaterWork::kDmaCopy:
    case LaterWork::kDmaTranspose:
    case LaterWork::kDmaTransposeOnChip:
    case LaterWork::kDmaThereAndBack:
    case LaterWork::kDmaGenerated:
      by_dma(program, work, rounds);
      break;
    default:
      on_columns(program, work, rounds);
      break;
  }
  return program.build();
}

double operations_of(LaterWork work) {
  const double codes = work == LaterWork::kProductMx ? NEURON_MX_CODES : rows_at_a_time(work);
  return 2 * codes * kParts * kHigh * kWide;
}

kernels::Neff exchange(uint32_t rounds, uint8_t generation) {
  constexpr uint32_t kColumns = kExchangedBytes / kParts / sizeof(float);
  Program first("exchange", generation), second("exchange", generation);
  for (Program* program : {&first, &second}) {
    const Tile from = filled(*program, kColumns, kF32);
    const Tile to = program->sbuf("to", kParts, kColumns, kF32);
    for (uint32_t round = 0; round < rounds; ++round) program->send_receive(to.all(), from.all());
  }
  first.physical_cores(2, &second);
  return first.build();
}

}  // namespace neuron::published
