// SPDX-License-Identifier: Apache-2.0
#include "ccom/reduction/reduction.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace neuron::ccom {
namespace {

constexpr ccom_reduction_t kReductions[] = {CCOM_ADD, CCOM_MIN, CCOM_MAX, CCOM_PRODUCT};
constexpr uint64_t kSizes[CCOM_TYPE_COUNT] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8};

class OnEveryPath : public testing::TestWithParam<ReductionPath> {
 protected:
  void SetUp() override {
    if (!select_reduction_path(GetParam())) GTEST_SKIP() << "not on this processor";
  }
  void TearDown() override { select_reduction_path(best_); }

 private:
  ReductionPath best_ = reduction_path();
};
INSTANTIATE_TEST_SUITE_P(Reduction, OnEveryPath,
                         testing::Values(ReductionPath::kScalar, ReductionPath::kAvx2,
                                         ReductionPath::kAvx512));

std::vector<std::byte> random_bytes(uint64_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> values(bytes);
  for (std::byte& value : values) value = static_cast<std::byte>(random());
  return values;
}

void expect_reference(ccom_type_t type, ccom_reduction_t reduction,
                      const std::vector<const std::byte*>& operands, uint64_t elements) {
  const uint64_t bytes = elements * kSizes[type];
  std::vector<std::byte> expected(bytes), found(bytes);
  const auto count = static_cast<uint32_t>(operands.size());
  reduce_reference(type, reduction, expected.data(), operands.data(), count, elements);
  reduce(type, reduction, found.data(), operands.data(), count, elements);
  for (uint64_t i = 0; i < bytes; ++i) {
    ASSERT_EQ(found[i], expected[i]) << "type " << type << " reduction " << reduction << " byte "
                                     << i << " of " << bytes << ", " << count << " operands";
  }
}

TEST_P(OnEveryPath, RandomBitsOfEveryTypeAndReductionGiveTheBitsOfTheDefinition) {
  for (int type = 0; type < CCOM_TYPE_COUNT; ++type) {
    for (const ccom_reduction_t reduction : kReductions) {
      for (const uint32_t count : {1u, 2u, 3u, 5u, 17u}) {
        for (const uint64_t elements : {1u, 7u, 64u, 203u}) {
          // Operands one byte off any alignment.
          const uint64_t bytes = elements * kSizes[type] + 1;
          const auto memory = random_bytes(count * bytes, static_cast<uint32_t>(count * elements));
          std::vector<const std::byte*> operands;
          for (uint32_t k = 0; k < count; ++k) operands.push_back(memory.data() + k * bytes + 1);
          expect_reference(static_cast<ccom_type_t>(type), reduction, operands, elements);
        }
      }
    }
  }
}

TEST_P(OnEveryPath, AllPairsOfEightBitValuesGiveTheBitsOfTheDefinition) {
  std::vector<std::byte> first(65536), second(65536);
  for (uint32_t i = 0; i < 65536; ++i) {
    first[i] = static_cast<std::byte>(i >> 8);
    second[i] = static_cast<std::byte>(i);
  }
  for (int type = CCOM_UINT8; type <= CCOM_FP8_E5; ++type) {
    for (const ccom_reduction_t reduction : kReductions) {
      expect_reference(static_cast<ccom_type_t>(type), reduction, {first.data(), second.data()},
                       65536);
    }
  }
}

TEST_P(OnEveryPath, EverySixteenBitFloatWithEdgesGivesTheBitsOfTheDefinition) {
  const uint16_t edges[] = {0x0000, 0x8000, 0x0001, 0x3F80, 0x7F7F, 0x7F80, 0xFF80,
                            0x7FC1, 0x7BFF, 0x7C00, 0x3C01, 0x0400, 0xB3FF};
  std::vector<uint16_t> first(65536), second(65536);
  for (uint32_t i = 0; i < 65536; ++i) first[i] = static_cast<uint16_t>(i);
  for (const uint16_t edge : edges) {
    std::fill(second.begin(), second.end(), edge);
    for (const ccom_type_t type : {CCOM_BF16, CCOM_FP16}) {
      for (const ccom_reduction_t reduction : kReductions) {
        expect_reference(type, reduction,
                         {reinterpret_cast<std::byte*>(first.data()),
                          reinterpret_cast<std::byte*>(second.data())},
                         65536);
      }
    }
  }
}

TEST_P(OnEveryPath, AverageGivesTheBitsOfTheDefinition) {
  for (int type = 0; type < CCOM_TYPE_COUNT; ++type) {
    for (const uint32_t ranks : {1u, 3u, 8u, 17u}) {
      const uint64_t bytes = 203 * kSizes[type];
      const auto values = random_bytes(bytes * ranks, ranks);
      std::vector<const std::byte*> operands;
      for (uint32_t k = 0; k < ranks; ++k) operands.push_back(values.data() + k * bytes);
      std::vector<std::byte> expected(bytes), found(bytes);
      std::byte* result = found.data();
      reduce_reference(static_cast<ccom_type_t>(type), CCOM_AVERAGE, expected.data(),
                       operands.data(), ranks, 203, ranks);
      reduce_to_many(static_cast<ccom_type_t>(type), CCOM_AVERAGE, &result, 1, operands.data(),
                     ranks, 203, false, ranks);
      EXPECT_EQ(found, expected) << "type " << type << " ranks " << ranks;
    }
  }
}

TEST_P(OnEveryPath, AverageRoundsOnceBehindTheDivision) {
  // (1 + 5 + 255) / 3 is 87; the sum as a bf16 is 260, a third of which becomes 86.5.
  const uint16_t a = 0x3F80, b = 0x40A0, c = 0x437F;
  const std::byte* operands[] = {reinterpret_cast<const std::byte*>(&a),
                                 reinterpret_cast<const std::byte*>(&b),
                                 reinterpret_cast<const std::byte*>(&c)};
  uint16_t found = 0;
  auto* result = reinterpret_cast<std::byte*>(&found);
  reduce_to_many(CCOM_BF16, CCOM_AVERAGE, &result, 1, operands, 3, 1, false, 3);
  EXPECT_EQ(found, 0x42AE);
}

TEST_P(OnEveryPath, SeveralResultsAreCopiesOfOne) {
  const auto a = random_bytes(10000, 1), b = random_bytes(10000, 2);
  const std::byte* operands[] = {a.data(), b.data()};
  std::vector<std::byte> one(10000), two(10000), expected(10000);
  std::byte* results[] = {one.data(), two.data()};
  reduce_reference(CCOM_BF16, CCOM_ADD, expected.data(), operands, 2, 5000);
  for (const bool streaming : {false, true}) {
    reduce_to_many(CCOM_BF16, CCOM_ADD, results, 2, operands, 2, 5000, streaming);
    EXPECT_EQ(one, expected);
    EXPECT_EQ(two, expected);
  }
}

TEST_P(OnEveryPath, AResultMayBeAnOperand) {
  auto a = random_bytes(1000, 1);
  const auto b = random_bytes(1000, 2);
  std::vector<std::byte> expected(1000);
  const std::byte* operands[] = {b.data(), a.data()};
  reduce_reference(CCOM_INT32, CCOM_ADD, expected.data(), operands, 2, 250);
  reduce(CCOM_INT32, CCOM_ADD, a.data(), operands, 2, 250);
  EXPECT_EQ(a, expected);
}

TEST_P(OnEveryPath, SubnormalsCountWhateverTheCallersModeIs) {
  const float tiny = std::ldexp(1.0f, -140);
  const auto* at = reinterpret_cast<const std::byte*>(&tiny);
  const std::byte* operands[] = {at, at};
  float sum = 0;
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);  // flush to zero, denormals are zero
  reduce(CCOM_FP32, CCOM_ADD, reinterpret_cast<std::byte*>(&sum), operands, 2, 1);
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u);
  _mm_setcsr(mode);
  EXPECT_EQ(sum, std::ldexp(1.0f, -139));
}

TEST_P(OnEveryPath, CopiesWithStreamingStoresAreCopies) {
  const auto from = random_bytes(20000, 3);
  for (const uint64_t offset : {0u, 1u, 63u}) {
    std::vector<std::byte> to(20000);
    copy_bytes(to.data() + offset, from.data() + 5, 19000, true);
    EXPECT_EQ(std::memcmp(to.data() + offset, from.data() + 5, 19000), 0);
  }
}

}  // namespace
}  // namespace neuron::ccom
