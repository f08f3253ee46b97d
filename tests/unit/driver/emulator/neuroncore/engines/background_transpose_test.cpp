// SPDX-License-Identifier: Apache-2.0
// The background transpose of generation 4 in model time, and that it changes nothing else.
#include <vector>

#include "driver/isa/cost.h"
#include "tests/unit/driver/emulator/neuroncore/generation_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

class BackgroundTranspose : public GenerationMachine {
 protected:
  static Instruction transpose(unsigned bank) {
    Instruction i = inst(NEURON_OP_TRANSPOSE);
    i.src0 = sbuf(128, 0, NEURON_DTYPE_BF16, 128);
    i.dst = psum(128, bank * NEURON_PSUM_BANK_BYTES, NEURON_DTYPE_BF16, 128);
    return i;
  }
  static Instruction product(unsigned bank, unsigned columns = 512) {
    Instruction i = inst(NEURON_OP_MATMUL);
    i.src0 = sbuf(128, 0, NEURON_DTYPE_BF16, static_cast<int>(columns));
    i.dst = psum(128, bank * NEURON_PSUM_BANK_BYTES, NEURON_DTYPE_F32, static_cast<int>(columns));
    return i;
  }
  // Model time of a program on a chip of the generation, behind products that lift the limit of the
  // current.
  uint64_t time_of(unsigned generation, const std::vector<Instruction>& work) {
    begin(generation);
    for (unsigned p = 0; p < 128; ++p) {
      const std::vector<std::byte> zeros(8192);
      EXPECT_TRUE(chip_->bus().write(sbuf_address(p, 0), zeros, {}));
    }
    Instruction weights = inst(NEURON_OP_LDWEIGHTS);
    weights.src0 = sbuf(128, 0, NEURON_DTYPE_BF16, 128);
    std::vector<Instruction> program = {weights};
    for (unsigned n = 0; n < 64; ++n) program.push_back(product(7));
    program[1].pe.swap = true;
    program.insert(program.end(), work.begin(), work.end());
    execute(kPe, program);
    return time();
  }
  uint64_t added(unsigned generation, const std::vector<Instruction>& work) {
    return time_of(generation, work) - time_of(generation, {});
  }
  static std::vector<Instruction> chain(unsigned count) {
    std::vector<Instruction> work;
    for (unsigned n = 0; n < count; ++n) work.push_back(transpose(n % 4));
    return work;
  }
  // Of one instruction in the array.
  static uint64_t interval(const Instruction& i, unsigned generation = 4) {
    return isa::cost_of(i, kPe, generation).interval;
  }
};

TEST_F(BackgroundTranspose, ALongChainTakesCloseToHalfOfItsTime) {
  const uint64_t sum = 64 * interval(transpose(0));
  EXPECT_LE(added(4, chain(64)), sum * 55 / 100);
  const uint64_t more = time_of(4, chain(128)) - time_of(4, chain(64));
  EXPECT_LE(more, sum * 525 / 1000);
  EXPECT_GE(more, sum / 2 - 1000);
}

TEST_F(BackgroundTranspose, RunsBehindALargeProductAtNoTimeOfItsOwn) {
  std::vector<Instruction> work = {product(6)};
  const uint64_t alone = added(4, work);
  for (unsigned n = 0; n < 3; ++n) work.push_back(transpose(n));
  EXPECT_LE(added(4, work), alone + interval(transpose(0)));
  EXPECT_GE(added(3, work), alone + 3 * interval(transpose(0), 3));
}

TEST_F(BackgroundTranspose, EarlierGenerationsTransposeInTheArrayOnly) {
  EXPECT_GE(added(3, chain(64)), 64 * interval(transpose(0), 3) - 1000);
}

TEST_F(BackgroundTranspose, WhatIsWrittenToTheSameBytesFollowsEachOther) {
  const std::vector<Instruction> same(16, transpose(0));
  // The first one may run beside the product before it.
  EXPECT_GE(added(4, same), 16 * interval(transpose(0)) - interval(product(7)));
  // The product must not be overtaken by the transpose that overwrites it.
  EXPECT_GE(added(4, {product(3), transpose(3)}), interval(product(3)) + interval(transpose(3)));
}

TEST_F(BackgroundTranspose, ResultsBecomeVisibleInTheOrderOfTheProgram) {
  // The transpose is done long before the product in front of it, and says so behind it.
  begin(4);
  Instruction large = product(0);
  large.update[0] = update(NEURON_UPDATE_INC, 30);
  Instruction small = transpose(1);
  small.update[0] = update(NEURON_UPDATE_INC, 31);
  for (unsigned p = 0; p < 128; ++p) {
    const std::vector<std::byte> zeros(8192);
    ASSERT_TRUE(chip_->bus().write(sbuf_address(p, 0), zeros, {}));
  }
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(128, 0, NEURON_DTYPE_BF16, 128);
  large.pe.swap = true;
  place(NEURON_ENGINE_SP, {time_when(31, 1, 4), time_when(30, 1, 2), inst(NEURON_OP_HALT)});
  const uint64_t block = kWindow + NEURON_CORE_ENGINE(NEURON_ENGINE_SP);
  set_core(block + NEURON_ENG_PROG_LO, static_cast<uint32_t>(kCode + NEURON_ENGINE_SP * 0x10000));
  set_core(block + NEURON_ENG_PROG_COUNT, 3);
  set_core(block + NEURON_ENG_CONTROL, NEURON_CMD_START);
  execute(kPe, {weights, large, small});
  // An engine whose wait holds already goes on at once, so the second time is not earlier.
  EXPECT_GE(register_of(NEURON_ENGINE_SP, 4), 2 * interval(large) + interval(weights) / 4);
}

}  // namespace
}  // namespace neuron::core
