// SPDX-License-Identifier: Apache-2.0
// What a model needs of HBM, and what is said when a core has less.
#include "tools/compiler/lowering/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/compiler/graph/builder.h"
#include "tools/compiler/lowering/lower.h"

namespace neuron::lowering {
namespace {

using graph::Builder;
using graph::RefusalClass;
using graph::Type;
using ::testing::AllOf;
using ::testing::HasSubstr;

// y = (x @ a) @ b; weights of 64 x 256 and 256 x 128 numbers.
Graph two_layers(int64_t rows) {
  Builder b("two");
  const Value x = b.input("x", Type::kF32, {rows, 64});
  b.origin("first");
  const Value h = b.product(x, b.constant(graph::Tensor::zeros(Type::kF32, {64, 256})));
  b.origin("second");
  b.output("y", b.product(h, b.constant(graph::Tensor::zeros(Type::kF32, {256, 128}))));
  return b.finish();
}

TEST(Memory, HasTheBytesThatTensorsWeightsAndValuesHave) {
  for (const int level : {0, 2}) {
    const auto lowered = lower(two_layers(40), {.level = level});
    ASSERT_TRUE(lowered) << lowered.error().sentence;
    EXPECT_EQ(lowered->memory.tensors, 4u * 40 * (64 + 128));
    EXPECT_EQ(lowered->memory.weights(), 4u * (64 * 256 + 256 * 128)) << "-O" << level;
    // Between layers h lies in HBM at -O0, and in SBUF at -O2.
    EXPECT_GE(lowered->memory.values(), level == 0 ? 4u * 40 * 256 : 0u);
    EXPECT_LE(lowered->memory.values(), level == 0 ? 4u * 40 * (256 + 128) : 4u * 40 * 128);
    EXPECT_EQ(excess(lowered->memory, hbm_of(2), two_layers(40)), "");
  }
}

TEST(Memory, AModelThatDoesNotFitIsRefusedWithWhatWouldFit) {
  const uint64_t fixed = 4 * (64 * 256 + 256 * 128);
  const auto at = [&](int64_t rows, uint64_t hbm) {
    auto lowered = lower(two_layers(rows), {.level = 0, .hbm = hbm});
    EXPECT_TRUE(lowered) << lowered.error().sentence;
    return std::move(*lowered);
  };
  const Lowered refused = at(100, fixed + 150'000);
  ASSERT_EQ(refused.refusals.size(), 1u);
  EXPECT_EQ(refused.refusals[0].kind, RefusalClass::kMemory);
  EXPECT_TRUE(refused.neff.empty());
  const std::string text = refused.refusals[0].text();
  EXPECT_THAT(text,
              AllOf(HasSubstr("of HBM (196.6 kB weights, 76.8 kB inputs and outputs"),
                    HasSubstr("most of it: \""), HasSubstr("\"second\" 131.1 kB weights and "),
                    HasSubstr("\"first\" 65.5 kB weights and 102.4 kB values")));
  const size_t said = text.find("with a first dimension of ");
  ASSERT_NE(said, text.npos) << text;
  const int64_t rows = std::stoi(text.substr(said + 26));
  EXPECT_GT(rows, 0);
  EXPECT_LT(rows, 100);
  EXPECT_TRUE(at(rows, fixed + 150'000).refusals.empty()) << rows << " rows do not fit: " << text;
  EXPECT_FALSE(at(rows + 1, fixed + 150'000).refusals.empty());
  EXPECT_THAT(at(100, fixed / 2).refusals.at(0).text(),
              HasSubstr("the weights alone are too much"));
}

TEST(Memory, AGenerationHasTheStackOfItsChipWithoutThatOfTheFirmware) {
  EXPECT_EQ(hbm_of(2), (uint64_t{16} << 30) - (16 << 20));
  EXPECT_EQ(hbm_of(3), (uint64_t{24} << 30) - (16 << 20));
  EXPECT_EQ(hbm_of(4), (uint64_t{36} << 30) - (16 << 20));
}

}  // namespace
}  // namespace neuron::lowering
