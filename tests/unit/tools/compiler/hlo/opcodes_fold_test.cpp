// SPDX-License-Identifier: Apache-2.0
// Reductions by any computation, of several arrays and of windows, and the maps that are small.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/tools/compiler/graph/evaluated.h"
#include "tests/unit/tools/compiler/hlo/module_writer.h"
#include "tools/compiler/hlo/importer.h"

namespace neuron::hlo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<double>> run(const ModuleWriter& writer,
                                     const std::vector<std::vector<double>>& inputs) {
  return graph::evaluated(import_module(writer.bytes(), "test"), inputs);
}

// The larger number and its place, of equal ones the smaller place; as front ends write argmax.
int64_t larger_with_place(ModuleWriter& w) {
  const int64_t number = w.begin("larger");
  const int64_t a = w.parameter("a", 0, {}), i = w.parameter("i", 1, {}, kS32);
  const int64_t b = w.parameter("b", 2, {}), k = w.parameter("k", 3, {}, kS32);
  auto& more = w.add("compare", kPred, {}, {a, b});
  more.set_comparison_direction("GT");
  const int64_t more_id = more.id();
  auto& same = w.add("compare", kPred, {}, {a, b});
  same.set_comparison_direction("EQ");
  const int64_t same_id = same.id();
  auto& sooner = w.add("compare", kPred, {}, {i, k});
  sooner.set_comparison_direction("LT");
  const int64_t tie = w.id("and", kPred, {}, {same_id, sooner.id()});
  const int64_t wins = w.id("or", kPred, {}, {more_id, tie});
  const int64_t value = w.id("select", kF32, {}, {wins, a, b});
  const int64_t place = w.id("select", kS32, {}, {wins, i, k});
  w.results({value, place});
  w.entry();
  return number;
}

TEST(HloFold, FoldsSeveralArraysByOneComputation) {
  for (const int64_t depth : {1, 2, 5, 8}) {
    ModuleWriter w;
    const int64_t larger = larger_with_place(w);
    const int64_t x = w.parameter("x", 0, {2, depth});
    auto& places = w.add("iota", kS32, {2, depth});
    places.add_dimensions(1);
    const int64_t places_id = places.id();
    const int64_t least = w.constant({}, {-INFINITY}), none = w.whole({}, {2147483647});
    auto& fold = w.add("reduce", 13, {}, {x, places_id, least, none});
    fold.add_dimensions(1);
    fold.add_called_computation_ids(larger);
    const int64_t fold_id = fold.id();
    auto& value = w.add("get-tuple-element", kF32, {2}, {fold_id});
    const int64_t value_id = value.id();
    auto& place = w.add("get-tuple-element", kS32, {2}, {fold_id});
    place.set_tuple_index(1);
    w.results({value_id, place.id()});
    std::vector<double> numbers;
    for (int64_t i = 0; i < 2 * depth; ++i) numbers.push_back(static_cast<double>(i * 7 % 5));
    std::vector<double> best, where;
    for (int64_t row = 0; row < 2; ++row) {
      const auto first = numbers.begin() + row * depth;
      const auto found = std::max_element(first, first + depth);
      best.push_back(*found);
      where.push_back(static_cast<double>(found - first));
    }
    EXPECT_THAT(run(w, {numbers}), ElementsAre(best, where)) << depth;
  }
}

TEST(HloFold, FoldsByComputationsThatTheDeviceDoesNotHave) {
  ModuleWriter w;
  const int64_t number = w.begin("either");
  const int64_t a = w.parameter("a", 0, {}, kS32), b = w.parameter("b", 1, {}, kS32);
  w.add("xor", kS32, {}, {a, b});
  w.entry();
  const int64_t x = w.parameter("x", 0, {5, 2}, kS32);
  const int64_t first = w.whole({}, {64});
  auto& fold = w.add("reduce", kS32, {2}, {x, first});
  fold.add_dimensions(0);
  fold.add_called_computation_ids(number);
  EXPECT_THAT(run(w, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}})[0],
              ElementsAre(64 ^ 1 ^ 3 ^ 5 ^ 7 ^ 9, 64 ^ 2 ^ 4 ^ 6 ^ 8 ^ 10));
}

TEST(HloFold, FoldsWindowsWithTheFirstValueAround) {
  ModuleWriter w;
  const int64_t sum = w.combiner("add");
  const int64_t x = w.parameter("x", 0, {1, 4});
  const int64_t zero = w.constant({}, {0});
  auto& fold = w.add("reduce-window", kF32, {1, 3}, {x, zero});
  fold.add_called_computation_ids(sum);
  for (const auto& [size, stride, low, high] : {std::tuple{1, 1, 0, 0}, std::tuple{3, 2, 2, 1}}) {
    auto* d = fold.mutable_window()->add_dimensions();
    d->set_size(size);
    d->set_stride(stride);
    d->set_padding_low(low);
    d->set_padding_high(high);
  }
  EXPECT_THAT(run(w, {{1, 2, 3, 4}})[0], ElementsAre(1, 6, 7));
}

TEST(HloFold, RefusesWindowsThatDoNotFit) {
  ModuleWriter w;
  const int64_t sum = w.combiner("add");
  const int64_t x = w.parameter("x", 0, {4});
  const int64_t zero = w.constant({}, {0});
  auto& fold = w.add("reduce-window", kF32, {1}, {x, zero});
  fold.add_called_computation_ids(sum);
  auto* d = fold.mutable_window()->add_dimensions();
  d->set_size(9);
  d->set_stride(1);
  const auto imported = import_module(w.bytes(), "test");
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->refusals.size(), 1u);
  EXPECT_THAT(imported->refusals[0].sentence,
              HasSubstr("a window of 9 does not fit the 4 elements"));
}

TEST(HloMap, KeepsTheDigitsOfExponentialsAndLogarithmsNearZeroAndOne) {
  const std::vector<double> list = {-0.6, -0.49, -1e-3, -1e-6, 0, 1e-9, 1e-6, 1e-3, 0.49, 0.6, 3};
  const auto count = static_cast<int64_t>(list.size());
  for (const bool exponential : {true, false}) {
    ModuleWriter w;
    const int64_t x = w.parameter("x", 0, {count});
    w.add(exponential ? "exponential-minus-one" : "log-plus-one", kF32, {count}, {x});
    const auto found = run(w, {list})[0];
    for (size_t i = 0; i < list.size(); ++i) {
      const double exact = static_cast<float>(list[i]);
      const double wanted = exponential ? std::expm1(exact) : std::log1p(exact);
      EXPECT_NEAR(found[i], wanted, 2e-6 * std::fabs(wanted)) << list[i];
    }
  }
}

TEST(HloMap, RoundsAwayShiftsWithTheSignAndTakesCubeRoots) {
  ModuleWriter round;
  const int64_t x = round.parameter("x", 0, {5});
  round.add("round-nearest-afz", kF32, {5}, {x});
  EXPECT_THAT(run(round, {{-2.5, -0.5, 0.49999997, 0.5, 2.4}})[0], ElementsAre(-3, -1, 0, 1, 2));

  ModuleWriter shift;
  const int64_t a = shift.parameter("a", 0, {4}, kS32), b = shift.parameter("b", 1, {4}, kS32);
  shift.add("shift-right-arithmetic", kS32, {4}, {a, b});
  EXPECT_THAT(run(shift, {{-8, 8, -1, -8}, {1, 1, 31, 40}})[0], ElementsAre(-4, 4, -1, -1));

  ModuleWriter root;
  const int64_t y = root.parameter("y", 0, {3});
  root.add("cbrt", kF32, {3}, {y});
  const auto found = run(root, {{-27, 0, 8}})[0];
  EXPECT_NEAR(found[0], -3, 1e-6);
  EXPECT_EQ(found[1], 0);
  EXPECT_NEAR(found[2], 2, 1e-6);
}

}  // namespace
}  // namespace neuron::hlo
