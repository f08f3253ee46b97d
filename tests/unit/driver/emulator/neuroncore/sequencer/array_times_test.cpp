// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/array_times.h"

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

// Places in multiples of 32; sizes as op.pe has them: 0 = 128, 1 = 64, 2 = 32.
isa::PeOp tile_of(unsigned row, unsigned column, unsigned rows, unsigned columns) {
  isa::PeOp op;
  op.row = static_cast<uint8_t>(row);
  op.column = static_cast<uint8_t>(column);
  op.rows = static_cast<uint8_t>(rows);
  op.columns = static_cast<uint8_t>(columns);
  return op;
}

TEST(ArrayTimes, ATileIsFreeWhenEachOfItsCellsIs) {
  ArrayTimes array;
  EXPECT_FALSE(array.used());
  array.occupy(tile_of(0, 0, 1, 1), 100);
  array.occupy(tile_of(2, 2, 2, 2), 300);
  EXPECT_TRUE(array.used());
  EXPECT_EQ(array.free_from(tile_of(0, 0, 1, 1)), 100U);
  EXPECT_EQ(array.free_from(tile_of(1, 1, 2, 2)), 100U);
  EXPECT_EQ(array.free_from(tile_of(0, 2, 1, 1)), 0U);
  EXPECT_EQ(array.free_from(tile_of(2, 2, 1, 1)), 300U);
  EXPECT_EQ(array.free_from(tile_of(3, 3, 2, 2)), 0U);
  EXPECT_EQ(array.free_from(tile_of(0, 0, 0, 0)), 300U) << "the whole array";
  array.occupy(tile_of(0, 0, 0, 0), 900);
  EXPECT_EQ(array.free_from(tile_of(3, 3, 2, 2)), 900U);
  array.restart();
  EXPECT_FALSE(array.used());
  EXPECT_EQ(array.free_from(tile_of(0, 0, 0, 0)), 0U);
}

class ArrayTimesOfACore : public CoreMachine {
 protected:
  // The model time of 20 products of 512 columns, each of 64 rows, by turns in the tiles.
  uint64_t time_of(const std::vector<isa::PeOp>& tiles) {
    set_core(NEURON_CORE_CONTROL + NEURON_CORE_COMMAND, NEURON_CMD_RESET | 0x1F00);
    fill_sbuf(64, 0x1000);
    std::vector<Instruction> program;
    for (const isa::PeOp& tile : tiles) {
      Instruction weights = inst(NEURON_OP_LDWEIGHTS);
      weights.src0 = sbuf(64, 0, NEURON_DTYPE_BF16, 64);
      weights.pe = tile;
      program.push_back(weights);
    }
    for (unsigned n = 0; n < 20; ++n) {
      Instruction product = inst(NEURON_OP_MATMUL);
      product.src0 = sbuf(64, 0x100, NEURON_DTYPE_BF16, 512);
      product.dst =
          psum(64, static_cast<uint32_t>(n % 8 * NEURON_PSUM_BANK_BYTES), NEURON_DTYPE_F32, 512);
      product.pe = tiles[n % tiles.size()];
      product.pe.swap = n < tiles.size();
      program.push_back(product);
    }
    Instruction halt = inst(NEURON_OP_HALT);
    halt.drain = true;
    program.push_back(halt);
    load_and_run(kPe, program);
    EXPECT_EQ(state(kPe), NEURON_STATE_HALTED) << isa::fault_name(fault(kPe));
    return time();
  }
};

TEST_F(ArrayTimesOfACore, ProductsInTilesThatShareNoCellRunAtTheSameTime) {
  constexpr uint64_t kProduct = 512 * 5000 / 14;  // 512 cycles at 2.8 GHz
  const isa::PeOp upper = tile_of(0, 0, 1, 1), lower = tile_of(2, 0, 1, 1);
  const isa::PeOp right = tile_of(0, 2, 1, 1), last = tile_of(2, 2, 1, 1);
  const uint64_t alone = time_of({upper});
  EXPECT_GE(alone, 20 * kProduct);
  const auto at_once = [&](const std::vector<isa::PeOp>& tiles) {
    const uint64_t taken = time_of(tiles), saved = 20 * kProduct - 20 * kProduct / tiles.size();
    // What is left over: loads of weights, and the distances of the first products.
    EXPECT_LE(taken, alone - saved + 150'000) << tiles.size();
    EXPECT_GE(taken, alone - saved) << tiles.size();
  };
  at_once({upper, lower});
  at_once({upper, right});
  at_once({upper, lower, right, last});
}

}  // namespace
}  // namespace neuron::core
