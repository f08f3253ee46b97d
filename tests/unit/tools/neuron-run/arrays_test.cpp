// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-run/arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace neuron::run {
namespace {

using ::testing::ElementsAre;

Form form_of(nrt_dtype_t dtype, std::vector<uint64_t> shape, size_t bytes) {
  return {.name = "x", .dtype = dtype, .shape = std::move(shape), .bytes = bytes};
}

std::string refusal(const std::string& type, std::vector<uint64_t> shape, const Form& form) {
  const auto fits = check_fits({.type = type, .shape = std::move(shape), .data = {}}, form);
  return fits ? "" : fits.error().sentence;
}

TEST(Arrays, FitWithTheTypeAndTheShapeOfTheTensor) {
  const Form form = form_of(NRT_DTYPE_FLOAT32, {120, 64}, 120 * 64 * 4);
  EXPECT_EQ(text_of(form), "float32 [120, 64]");
  EXPECT_EQ(refusal("<f4", {120, 64}, form), "");
  EXPECT_EQ(refusal("<f8", {120, 64}, form),
            "the type is <f8 (float64), expected <f4 (float32); array.astype(\"f4\") converts");
  EXPECT_EQ(refusal("|b1", {120, 64}, form),
            "the type is |b1 (bool), expected <f4 (float32); array.astype(\"f4\") converts");
  EXPECT_EQ(refusal("<V4", {120, 64}, form),
            "the type is <V4 (32 bits without a meaning), expected <f4 (float32); "
            "array.astype(\"f4\") converts");
  EXPECT_EQ(refusal("<i2", {1}, form_of(NRT_DTYPE_UINT8, {1}, 1)),
            "the type is <i2 (int16), expected |u1 (uint8); array.astype(\"u1\") converts");
}

TEST(Arrays, OfAnotherShapeAreToldHowNumPyMakesIt) {
  const Form form = form_of(NRT_DTYPE_INT16, {2, 3, 4}, 48);
  EXPECT_EQ(refusal("<i2", {4, 3, 2}, form),
            "the shape is [4, 3, 2], expected [2, 3, 4]; numpy.ascontiguousarray(array.T) gives "
            "it, if the array is transposed");
  EXPECT_EQ(refusal("<i2", {6, 4}, form),
            "the shape is [6, 4], expected [2, 3, 4]; array.reshape(...) gives it, if the elements "
            "are in this order");
  EXPECT_EQ(refusal("<i2", {2, 3}, form), "the shape is [2, 3], expected [2, 3, 4]");
  EXPECT_EQ(refusal("<i2", {}, form), "the shape is [], expected [2, 3, 4]");
}

TEST(Arrays, OfTypesThatNumPyHasNotAreTheirBits) {
  const Form form = form_of(NRT_DTYPE_BFLOAT16, {4}, 8);
  EXPECT_EQ(refusal("<u2", {4}, form), "");
  EXPECT_EQ(refusal("<V2", {4}, form), "");
  EXPECT_EQ(refusal("<f2", {4}, form),
            "the type is <f2 (float16), expected <u2 (the bits of bfloat16, which NumPy has no "
            "name for)");
  const Form eight = form_of(NRT_DTYPE_FP8_E4, {4}, 4);
  for (const char* type : {"|u1", "|V1", "|f1"}) EXPECT_EQ(refusal(type, {4}, eight), "") << type;
  EXPECT_EQ(refusal("|b1", {4}, form_of(NRT_DTYPE_UINT8, {4}, 4)), "");
}

TEST(Arrays, OfATensorHaveItsTypeShapeAndBytes) {
  const auto array = array_of(form_of(NRT_DTYPE_FLOAT16, {1, 2}, 4), {1, 2, 3, 4});
  EXPECT_EQ(array.type, "<f2");
  EXPECT_THAT(array.shape, ElementsAre(1, 2));
  EXPECT_THAT(array.data, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(array_of(form_of(NRT_DTYPE_INT8, {1}, 1), {9}).type, "|i1");
  // A shape that does not say how many bytes there are is none.
  EXPECT_THAT(array_of(form_of(NRT_DTYPE_FLOAT32, {2}, 16), {}).shape, ElementsAre(4));
  EXPECT_THAT(array_of(form_of(NRT_DTYPE_UNKNOWN, {2}, 5), {}).shape, ElementsAre(5));
}

TEST(RandomNumbers, FollowFromSeedNameAndForm) {
  Form form = form_of(NRT_DTYPE_FLOAT32, {100}, 400);
  const auto first = random_bytes(form, 3);
  EXPECT_EQ(first.size(), 400u);
  EXPECT_EQ(first, random_bytes(form, 3));
  EXPECT_NE(first, random_bytes(form, 4));
  form.name = "y";
  EXPECT_NE(first, random_bytes(form, 3));
}

TEST(RandomNumbers, AreBetweenASixteenthAndOneWithAnySign) {
  const auto bytes = random_bytes(form_of(NRT_DTYPE_FLOAT32, {4000}, 16000), 1);
  size_t negative = 0;
  std::set<int> exponents;
  for (size_t at = 0; at < bytes.size(); at += 4) {
    float value = 0;
    std::memcpy(&value, &bytes[at], 4);
    ASSERT_GE(std::fabs(value), 1.0F / 16);
    ASSERT_LT(std::fabs(value), 1);
    negative += value < 0 ? 1 : 0;
    exponents.insert(std::ilogb(value));
  }
  EXPECT_THAT(exponents, ElementsAre(-4, -3, -2, -1));
  EXPECT_GT(negative, 1800u);
  EXPECT_LT(negative, 2200u);
}

TEST(RandomNumbers, OfThreeBitsOfExponentAreBetweenAQuarterAndOne) {
  // 4 bits of mantissa; 1 is 0x30, a quarter 0x10.
  std::set<uint8_t> magnitudes;
  for (const uint8_t byte : random_bytes(form_of(NRT_DTYPE_FP8_E3, {4000}, 4000), 1)) {
    magnitudes.insert(byte & 0x7F);
  }
  EXPECT_EQ(*magnitudes.begin(), 0x10);
  EXPECT_EQ(*magnitudes.rbegin(), 0x2F);
  EXPECT_EQ(magnitudes.size(), 32u);
}

TEST(RandomNumbers, ThatAreWholeAreNoughtToFifteen) {
  std::set<uint16_t> numbers;
  const auto bytes = random_bytes(form_of(NRT_DTYPE_UINT16, {2000}, 4001), 1);
  EXPECT_EQ(bytes.size(), 4001u);
  EXPECT_EQ(bytes.back(), 0) << "no whole number";
  for (size_t at = 0; at + 2 <= bytes.size(); at += 2) {
    numbers.insert(static_cast<uint16_t>(bytes[at] | bytes[at + 1] << 8));
  }
  EXPECT_EQ(numbers.size(), 16u);
  EXPECT_EQ(*numbers.rbegin(), 15);
}

}  // namespace
}  // namespace neuron::run
