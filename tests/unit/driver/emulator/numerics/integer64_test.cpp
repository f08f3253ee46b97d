// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/integer64.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "hw/isa.h"

namespace neuron::numerics {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
constexpr uint64_t kAll = ~uint64_t{0};

float of_i64(int64_t value) { return widen_integer64(true, static_cast<uint64_t>(value)); }
float of_u64(uint64_t value) { return widen_integer64(false, value); }
int64_t to_i64(float value) { return static_cast<int64_t>(narrow_integer64(true, value)); }
uint64_t to_u64(float value) { return narrow_integer64(false, value); }

uint64_t extended(unsigned dtype, uint64_t bits) {
  std::byte bytes[8];
  std::memcpy(bytes, &bits, 8);
  return extend_integer(dtype, bytes);
}
// What is written, in front of bytes that must stay.
uint64_t clamped(bool is_signed, uint64_t bits, unsigned dtype) {
  uint64_t memory = 0;
  clamp_integer(is_signed, bits, dtype, reinterpret_cast<std::byte*>(&memory));
  return memory;
}

TEST(Integer64, WidensToTheNearestFloatTheEvenOneOfTwo) {
  EXPECT_EQ(of_i64(0), 0.0F);
  EXPECT_EQ(of_i64(-7), -7.0F);
  EXPECT_EQ(of_i64(kLowest), -0x1p63F);
  EXPECT_EQ(of_i64(kHighest), 0x1p63F);
  EXPECT_EQ(of_u64(kAll), 0x1p64F);
  EXPECT_EQ(of_u64((uint64_t{1} << 24) + 1), 0x1p24F) << "a tie, to even";
  EXPECT_EQ(of_u64((uint64_t{1} << 24) + 3), 0x1p24F + 4) << "a tie, to even";
  // One more than half a step at the far end of the integer.
  EXPECT_EQ(of_u64((uint64_t{1} << 63) + (uint64_t{1} << 39) + 1), 0x1p63F + 0x1p40F);
  EXPECT_EQ(of_u64((uint64_t{1} << 63) + (uint64_t{1} << 39)), 0x1p63F);
}

TEST(Integer64, WidensAsTheHostDoesInItsNearestMode) {
  std::mt19937_64 random(64);
  for (unsigned n = 0; n < 200000; ++n) {
    const uint64_t bits = random() >> random() % 64;
    ASSERT_EQ(of_u64(bits), static_cast<float>(bits)) << bits;
    const auto number = static_cast<int64_t>(bits);
    ASSERT_EQ(of_i64(number), static_cast<float>(number)) << number;
  }
}

TEST(Integer64, NarrowsToNearestEvenAndClampsAndMakesNanZero) {
  EXPECT_EQ(to_i64(0.5F), 0);
  EXPECT_EQ(to_i64(1.5F), 2);
  EXPECT_EQ(to_i64(2.5F), 2);
  EXPECT_EQ(to_i64(-1.5F), -2);
  EXPECT_EQ(to_i64(-0.75F), -1);
  EXPECT_EQ(to_i64(0x1p62F), int64_t{1} << 62);
  EXPECT_EQ(to_i64(0x1p63F), kHighest);
  EXPECT_EQ(to_i64(-0x1p63F), kLowest);
  EXPECT_EQ(to_i64(-INFINITY), kLowest);
  EXPECT_EQ(to_i64(INFINITY), kHighest);
  EXPECT_EQ(to_i64(NAN), 0);
  EXPECT_EQ(to_u64(-3.0F), 0U);
  EXPECT_EQ(to_u64(-INFINITY), 0U);
  EXPECT_EQ(to_u64(0x1p63F), uint64_t{1} << 63);
  EXPECT_EQ(to_u64(0x1p64F), kAll);
  EXPECT_EQ(to_u64(NAN), 0U);
}

TEST(Integer64, ExtendsEachTypeByItsSign) {
  EXPECT_EQ(extended(NEURON_DTYPE_I8, 0x80), kAll - 127);
  EXPECT_EQ(extended(NEURON_DTYPE_U8, 0x80), 128U);
  EXPECT_EQ(extended(NEURON_DTYPE_I16, 0xFFFF), kAll);
  EXPECT_EQ(extended(NEURON_DTYPE_U16, 0xFFFF), 65535U);
  EXPECT_EQ(extended(NEURON_DTYPE_I32, 0x80000000), kAll << 31);
  EXPECT_EQ(extended(NEURON_DTYPE_U32, 0x80000000), uint64_t{1} << 31);
  EXPECT_EQ(extended(NEURON_DTYPE_I64, kAll), kAll);
  EXPECT_EQ(extended(NEURON_DTYPE_U64, kAll), kAll);
  // Bytes behind the element do not count.
  EXPECT_EQ(extended(NEURON_DTYPE_U8, 0x1234567801), 1U);
}

TEST(Integer64, BecomesTheNearestEndOfANarrowerRange) {
  struct Case {
    unsigned dtype;
    int64_t lowest;
    uint64_t highest;
  };
  const Case cases[] = {{NEURON_DTYPE_I8, -128, 127},
                        {NEURON_DTYPE_U8, 0, 255},
                        {NEURON_DTYPE_I16, -32768, 32767},
                        {NEURON_DTYPE_U16, 0, 65535},
                        {NEURON_DTYPE_I32, std::numeric_limits<int32_t>::min(), 0x7FFFFFFF},
                        {NEURON_DTYPE_U32, 0, 0xFFFFFFFF},
                        {NEURON_DTYPE_I64, kLowest, uint64_t(kHighest)},
                        {NEURON_DTYPE_U64, 0, kAll}};
  const auto read = [](unsigned dtype, uint64_t memory) { return extended(dtype, memory); };
  for (const Case& c : cases) {
    for (const int64_t value : {kLowest, int64_t{-70000}, int64_t{-129}, int64_t{-128}, int64_t{-1},
                                int64_t{0}, int64_t{1}, int64_t{128}, kHighest}) {
      const uint64_t expected = value < c.lowest ? static_cast<uint64_t>(c.lowest)
                                : value > 0      ? std::min(static_cast<uint64_t>(value), c.highest)
                                                 : static_cast<uint64_t>(value);
      EXPECT_EQ(read(c.dtype, clamped(true, static_cast<uint64_t>(value), c.dtype)), expected)
          << c.dtype << " " << value;
    }
    EXPECT_EQ(read(c.dtype, clamped(false, kAll, c.dtype)), c.highest) << c.dtype;
    EXPECT_EQ(read(c.dtype, clamped(false, 100, c.dtype)), 100U) << c.dtype;
  }
}

TEST(Integer64, WritesNoByteBehindTheElement) {
  uint64_t memory = kAll;
  clamp_integer(true, 5, NEURON_DTYPE_I16, reinterpret_cast<std::byte*>(&memory));
  EXPECT_EQ(memory, (kAll << 16) + 5);
}

}  // namespace
}  // namespace neuron::numerics
