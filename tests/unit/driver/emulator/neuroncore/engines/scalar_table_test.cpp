// SPDX-License-Identifier: Apache-2.0
// Loadable activation tables: the format, what is refused, what is computed.
#include "driver/emulator/neuroncore/engines/scalar_table.h"

#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

struct Piece {
  float from, centre, c0, c1, c2, c3;
};

std::vector<uint32_t> image(unsigned number, const std::vector<Piece>& pieces) {
  std::vector<uint32_t> words{NEURON_TABLE_MAGIC, NEURON_TABLE_VERSION, 1,
                              static_cast<uint32_t>(pieces.size())};
  for (const uint32_t word : {number, 0u, static_cast<uint32_t>(pieces.size()),
                              std::bit_cast<uint32_t>(-4.0f), std::bit_cast<uint32_t>(4.0f)}) {
    words.push_back(word);
  }
  for (const Piece& p : pieces) {
    for (const float f : {p.from, p.centre, p.c0, p.c1, p.c2, p.c3}) {
      words.push_back(std::bit_cast<uint32_t>(f));
    }
  }
  return words;
}

// Hard sigmoid: 0, x / 6 + 1 / 2, 1.
std::vector<uint32_t> hard_sigmoid() {
  return image(130,
               {{-kFloatInfinity, 0, 0, 0, 0, 0}, {-3, 0, 0.5f, 0.25f, 0, 0}, {3, 0, 1, 0, 0, 0}});
}

TEST(ActivationTable, PicksTheLastPieceThatBeginsAtOrBelow) {
  ActivationTable table;
  ASSERT_EQ(table.accept(3, hard_sigmoid()), ActivationTable::kAccepted);
  EXPECT_EQ(table.set(), 3u);
  EXPECT_TRUE(table.has(130));
  EXPECT_FALSE(table.has(131));
  const float in[] = {-kFloatInfinity, -3.5f, -3, 0, 2, 3, kFloatInfinity, NAN};
  float out[8];
  table.compute(130, in, out, 8, numerics::Subnormals::kKeep);
  const float expected[] = {0, 0, -0.25f, 0.5f, 1.0f, 1, 1};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(out[i], expected[i]) << in[i];
  EXPECT_EQ(std::bit_cast<uint32_t>(out[7]), 0x7FC00000u);
  EXPECT_EQ(table.count_outside_domain(130, in, 8), 3u);  // both infinities, NaN
}

TEST(ActivationTable, EvaluatesACubicAroundItsCentreWithFusedSteps) {
  ActivationTable table;
  ASSERT_EQ(table.accept(1, image(128, {{-kFloatInfinity, 1.5f, 0.1f, 0.7f, -0.3f, 0.9f}})),
            ActivationTable::kAccepted);
  for (float x = -3; x < 3; x += 0.37f) {
    const float t = x - 1.5f;
    float out;
    table.compute(128, &x, &out, 1, numerics::Subnormals::kKeep);
    EXPECT_EQ(out, std::fma(std::fma(std::fma(0.9f, t, -0.3f), t, 0.7f), t, 0.1f));
  }
}

TEST(ActivationTable, FlushesSubnormalsWhereTheEngineDoes) {
  ActivationTable table;
  ASSERT_EQ(table.accept(1, image(128, {{-kFloatInfinity, 0, 0, 1, 0, 0}})),
            ActivationTable::kAccepted);
  const float x = 0x1p-140f;
  float out = 1;
  table.compute(128, &x, &out, 1, numerics::Subnormals::kKeep);
  EXPECT_EQ(out, x);
  table.compute(128, &x, &out, 1, numerics::Subnormals::kFlush);
  EXPECT_EQ(out, 0.0f);
}

TEST(ActivationTable, RefusesEveryMalformedWordAndKeepsTheOldSet) {
  ActivationTable table;
  ASSERT_EQ(table.accept(3, hard_sigmoid()), ActivationTable::kAccepted);
  const auto refused = [&](size_t word, uint32_t value) {
    auto words = hard_sigmoid();
    words[word] = value;
    const size_t found = table.accept(4, words);
    EXPECT_EQ(table.set(), 3u) << word;
    return found;
  };
  const auto bits = [](float f) { return std::bit_cast<uint32_t>(f); };
  EXPECT_EQ(refused(0, 0), 0u);
  EXPECT_EQ(refused(1, 2), 1u);
  EXPECT_EQ(refused(2, 0), 2u);
  EXPECT_EQ(refused(2, 17), 2u);
  EXPECT_EQ(refused(3, 1025), 3u);
  EXPECT_EQ(refused(3, 2), 3u);    // fewer than the image holds
  EXPECT_EQ(refused(4, 127), 4u);  // number
  EXPECT_EQ(refused(4, 256), 4u);
  EXPECT_EQ(refused(5, 3), 5u);  // first piece
  EXPECT_EQ(refused(6, 0), 6u);  // pieces
  EXPECT_EQ(refused(5, 1), 6u);  // ... leave the set
  EXPECT_EQ(refused(7, bits(NAN)), 7u);
  EXPECT_EQ(refused(9, bits(-100.0f)), 9u);            // the first piece begins at -infinity
  EXPECT_EQ(refused(15, bits(-kFloatInfinity)), 15u);  // pieces ascend
  EXPECT_EQ(refused(21, bits(NAN)), 21u);
  EXPECT_EQ(table.accept(4, std::vector<uint32_t>{}), 0u);
}

class TableLoad : public EveryGeneration {
 protected:
  Instruction load_table(uint64_t address, unsigned set) {
    Instruction i = inst(NEURON_OP_LOAD_TABLE);
    i.address.addr = address;
    i.address.count = 1;
    i.act.table_set = static_cast<uint8_t>(set);
    return i;
  }
  Instruction apply(unsigned function, unsigned set) {
    Instruction i = inst(NEURON_OP_ACTIVATE);
    i.dst = sbuf(2, 64, NEURON_DTYPE_F32, 3);
    i.src0 = sbuf(2, 0, NEURON_DTYPE_F32, 3);
    i.act.function = static_cast<uint8_t>(function);
    i.act.table_set = static_cast<uint8_t>(set);
    return i;
  }
  // -2, 2, 6 in two partitions.
  void fill_input() {
    for (unsigned e = 0; e < 6; ++e) set_sbuf(e % 2, e / 2 * 4, 4.0f * (e / 2) - 2.0f);
  }
  void place_image(uint64_t address, const std::vector<uint32_t>& words) {
    std::memcpy(memory(address, words.size() * 4), words.data(), words.size() * 4);
  }
};

INSTANTIATE_TEST_SUITE_P(Generations, TableLoad, kGenerations);

TEST_P(TableLoad, MakesFunctionsOfDeviceMemoryAvailable) {
  place_image(kData, hard_sigmoid());
  fill_input();
  Instruction scaled = apply(130, 7);
  scaled.scalar0 = real(0.5f);
  load_and_run(kAct, {load_table(kData, 7), scaled, inst(NEURON_OP_HALT)});
  ASSERT_EQ(state(kAct), NEURON_STATE_HALTED) << chip_->describe_core(0);
  EXPECT_EQ(sbuf_float(1, 64), 0.25f);
  EXPECT_EQ(sbuf_float(1, 68), 0.75f);
  EXPECT_EQ(sbuf_float(1, 72), 1.0f);
}

TEST_P(TableLoad, RefusesFunctionsOfASetThatIsNotLoaded) {
  place_image(kData, hard_sigmoid());
  fill_input();
  load_and_run(kAct, {load_table(kData, 7), apply(130, 8), inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kAct), NEURON_FAULT_OP_NOT_ALLOWED);
}

TEST_P(TableLoad, RefusesAnImageThatIsNoTableAndAddressesThatAreNotMapped) {
  place_image(kData, {1, 2, 3, 4});
  load_and_run(kAct, {load_table(kData, 7), inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kAct), NEURON_FAULT_ILLEGAL_FIELD);
}

TEST_P(TableLoad, FaultsOnTheBusWhereNoMemoryAnswers) {
  load_and_run(kAct, {load_table(0x7000'0000'0000, 7), inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kAct), NEURON_FAULT_BUS);
}

}  // namespace
}  // namespace neuron::core
