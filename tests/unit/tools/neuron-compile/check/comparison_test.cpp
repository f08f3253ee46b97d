// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/check/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace neuron::compile {
namespace {

using graph::Tensor;
using graph::Type;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor reals(std::vector<double> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Tensor::of_reals(Type::kF64, {size}, std::move(values));
}
std::string compared(std::vector<double> found, std::vector<double> expected, const Bound& bound) {
  return difference(reals(std::move(found)), reals(std::move(expected)), bound);
}

TEST(Comparison, TakesTheAbsoluteAndTheRelativeBoundTogether) {
  constexpr Bound bound{0.5, 0.25, 0};
  EXPECT_EQ(compared({10, -10, 0.5}, {8, -8, 0}, bound), "");  // 2 <= 0.5 + 2
  EXPECT_EQ(compared({10.5}, {8}, bound), "") << "on the bound";
  EXPECT_EQ(compared({10.75}, {8}, bound),
            "1 of 1 elements differ; element 0 is 10.75, expected 8");
  EXPECT_EQ(compared({1, -10.75, 3}, {1, -8, 9}, bound),
            "2 of 3 elements differ; element 1 is -10.75, expected -8");
}

TEST(Comparison, OfAWholeArrayMeasuresByItsLargestElement) {
  constexpr Bound bound{0, 0, 0.125};
  EXPECT_EQ(compared({1, -16}, {3, -16}, bound), "") << "an eighth of 16";
  EXPECT_NE(compared({0.5, -16}, {3, -16}, bound), "");
  EXPECT_NE(compared({1, kInfinity}, {3, kInfinity}, bound), "") << "infinity is no measure";
  EXPECT_EQ(compared({1}, {1.5}, {0.5, 0, 0.125}), "") << "the wider of the two";
}

TEST(Comparison, NansAndInfinitiesEqualThemselvesOnly) {
  constexpr Bound wide{1e300, 1, 0};
  EXPECT_EQ(compared({kNan, kInfinity, -kInfinity}, {kNan, kInfinity, -kInfinity}, wide), "");
  EXPECT_NE(compared({0}, {kNan}, wide), "");
  EXPECT_NE(compared({kNan}, {0}, wide), "");
  EXPECT_NE(compared({0}, {kInfinity}, wide), "");
  EXPECT_NE(compared({-kInfinity}, {kInfinity}, wide), "");
  EXPECT_NE(compared({kInfinity}, {1e308}, wide), "");
}

TEST(Comparison, OfWholeNumbersAllowsNoDifference) {
  const auto whole = [](int64_t value) { return Tensor::of_integers(Type::kI64, {1}, {value}); };
  constexpr Bound wide{100, 1, 1};
  EXPECT_EQ(difference(whole(INT64_MAX), whole(INT64_MAX), wide), "");
  EXPECT_NE(difference(whole(INT64_MAX - 1), whole(INT64_MAX), wide), "");
}

TEST(Comparison, OfAnotherTypeOrShapeSaysBoth) {
  EXPECT_EQ(difference(Tensor::zeros(Type::kF32, {2, 3}), Tensor::zeros(Type::kF32, {3, 2}), {}),
            "found f32 2x3, expected f32 3x2");
  EXPECT_EQ(difference(Tensor::zeros(Type::kF32, {2}), Tensor::zeros(Type::kI32, {2}), {}),
            "found f32 2, expected i32 2");
}

}  // namespace
}  // namespace neuron::compile
