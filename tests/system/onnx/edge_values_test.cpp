// SPDX-License-Identifier: Apache-2.0
// Values at the edges of their types on an emulated device, against numbers that this file says or
// that the C library computes, and the reference interpreter against the same.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/setting.h"
#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron {
namespace {

using graph::Builder;
using graph::Function;
using graph::SharedTensor;
using graph::Tensor;
using graph::Type;
using graph::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();

class EdgeValues : public testing::Test {
 protected:
  EdgeValues() : emulator_("NEURON_EMULATOR", "trn1.2xlarge") {
    auto opened = execution::Session::open(1);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().sentence);
    if (opened) session_ = std::move(*opened);
  }

  Value give(Tensor tensor) {
    const Value value = b_.input("x" + std::to_string(inputs_.size()), tensor.type, tensor.shape);
    inputs_.push_back(std::make_shared<const Tensor>(std::move(tensor)));
    return value;
  }
  Value reals(const std::vector<double>& list) {
    Tensor tensor = Tensor::zeros(Type::kF32, {static_cast<int64_t>(list.size())});
    for (size_t i = 0; i < list.size(); ++i) tensor.set(i, list[i]);
    return give(std::move(tensor));
  }
  Value wholes(Type type, std::vector<int64_t> list) {
    const auto count = static_cast<int64_t>(list.size());
    return give(Tensor::of_integers(type, {count}, std::move(list)));
  }
  void expect(Value value, const std::vector<double>& list) {
    b_.output("y" + std::to_string(expected_.size()), value);
    expected_.push_back(list);
  }

  // All outputs of the interpreter and of the device, at each level.
  void run(const std::vector<int>& levels = {0, 2}) {
    ASSERT_TRUE(b_.ok()) << b_.problem();
    const graph::Graph graph = b_.finish();
    compare(graph::evaluate(graph, inputs_), "the interpreter");
    for (const int level : levels) {
      lowering::Options options;
      options.level = level;
      const auto lowered = lowering::lower(graph, options);
      ASSERT_TRUE(lowered) << lowered.error().sentence;
      ASSERT_TRUE(lowered->refusals.empty()) << lowered->refusals[0].sentence;
      const auto ran = compile::run_on_device(lowered->neff, graph, inputs_);
      ASSERT_TRUE(ran) << ran.error().sentence;
      compare(ran->outputs, "-O" + std::to_string(level));
    }
  }

  Builder b_{"edges"};

 private:
  void compare(const std::vector<SharedTensor>& found, const std::string& where) const {
    ASSERT_EQ(found.size(), expected_.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(static_cast<size_t>(found[i]->elements()), expected_[i].size());
      for (size_t k = 0; k < expected_[i].size(); ++k) {
        const double got = found[i]->real(k), wanted = expected_[i][k];
        if (std::isnan(got) && std::isnan(wanted)) continue;
        const double bound = graph::is_real(found[i]->type) ? 1e-5 * std::fabs(wanted) : 0;
        EXPECT_TRUE(got == wanted || std::fabs(got - wanted) <= bound)
            << where << ", output " << i << ", element " << k << ": found " << got << ", expected "
            << wanted;
      }
    }
  }

  test::Setting emulator_;
  std::unique_ptr<execution::Session> session_;
  std::vector<SharedTensor> inputs_;
  std::vector<std::vector<double>> expected_;
};

TEST_F(EdgeValues, RootsAndInverseFunctionsHaveTheirLimits) {
  const std::vector<double> list = {-kInfinity, -1e38, -1e10, -2,        0.5, 1,
                                    3,          1e10,  1e38,  kInfinity, kNan};
  const Value x = reals(list);
  const auto of = [&](double (*function)(double)) {
    std::vector<double> values;
    for (const double value : list) values.push_back(function(static_cast<float>(value)));
    return values;
  };
  expect(b_.map(Function::kSqrt, x), of([](double v) { return std::sqrt(v); }));
  expect(b_.map(Function::kAsin, x), of([](double v) { return std::asin(v); }));
  expect(b_.map(Function::kAsinh, x), of([](double v) { return std::asinh(v); }));
  expect(b_.map(Function::kAcosh, x), of([](double v) { return std::acosh(v); }));
  run();
}

TEST_F(EdgeValues, RemaindersOfRealNumbersAreThoseOfInfiniteDivisorsAndOfMultiples) {
  std::vector<double> numbers = {1, -1, kInfinity, 1, 5, 3e38, -5},
                      divisors = {kInfinity, -kInfinity, 2, 0, kNan, 3e38, kInfinity};
  for (int divisor = 1; divisor < 100; ++divisor) {
    numbers.push_back(divisor * (divisor % 13));  // nothing is left, whatever the reciprocal is
    divisors.push_back(divisor);
  }
  std::vector<double> rests;
  for (size_t i = 0; i < numbers.size(); ++i) rests.push_back(std::fmod(numbers[i], divisors[i]));
  expect(b_.map(Function::kRemainder, reals(numbers), reals(divisors)), rests);
  run();
}

TEST_F(EdgeValues, WholeNumbersAreDividedWithAllTheirBits) {
  const Value a = wholes(Type::kU32, {4000000000, 4294967295, 7, 3000000000, 5});
  const Value b = wholes(Type::kU32, {3, 1, 9, 4000000000, 0});
  expect(b_.map(Function::kDivide, a, b), {1333333333, 4294967295, 0, 0, 4294967295});
  expect(b_.map(Function::kModulo, a, b), {1, 0, 7, 3000000000, 5});
  const Value c = wholes(Type::kI32, {kLeast, kLeast, 5, -7, -7, 0});
  const Value d = wholes(Type::kI32, {-400000000, 7, kLeast, 2, 0, 0});
  expect(b_.map(Function::kDivide, c, d), {5, -306783378, 0, -3, -1, -1});
  expect(b_.map(Function::kRemainder, c, d), {-147483648, -2, 5, -1, -7, 0});
  const Value e = wholes(Type::kI8, {100, -100, 7}), f = wholes(Type::kI8, {7, 7, 0});
  expect(b_.map(Function::kDivide, e, f), {14, -14, -1});
  expect(b_.map(Function::kModulo, e, f), {2, 5, 7});
  run();
}

// Divisors whose significands have bits in both halves.
TEST_F(EdgeValues, RealNumbersAreDividedByKnownOnesAsByThoseOfInputs) {
  const std::vector<double> list = {1, -3, 1e-20, 12345.678F, 3e37F, 0, kInfinity, kNan};
  const Value x = reals(list);
  for (const float divisor : {3.3F, -0.1F, 16777215.0F, 1.00000012F, 7.0F}) {
    std::vector<double> quotients;
    for (const double value : list) {
      quotients.push_back(static_cast<float>(static_cast<float>(value) / divisor));
    }
    expect(b_.map(Function::kDivide, x, double{divisor}), quotients);
    expect(b_.map(Function::kDivide, x, reals(std::vector<double>(list.size(), divisor))),
           quotients);
  }
  run();
}

// A partition folds 4096 elements at a time.
TEST_F(EdgeValues, RowsOfSeveralPiecesAreFoldedWithAllOfTheirPieces) {
  constexpr int64_t kRows = 20, kDepth = 9000;
  std::vector<double> list, sums, largest;
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < kDepth; ++k) {
      const double value =
          k == row * 450 ? 1000 + static_cast<double>(row) : static_cast<double>(k % 3);
      list.push_back(value);
      sum += value;
    }
    sums.push_back(sum);
    largest.push_back(1000 + static_cast<double>(row));
  }
  const Value x = b_.reshape(reals(list), {kRows, kDepth});
  expect(b_.reduce(Function::kAdd, x, {1}, false), sums);
  expect(b_.reduce(Function::kMaximum, x, {1}, false), largest);
  run();
}

TEST_F(EdgeValues, PowersOfWholeNumbersKeepTheLowBits) {
  const Value a = wholes(Type::kI32, {3, 7, -3, 2, 0, -1, -1, 5});
  const Value b = wholes(Type::kI32, {19, 11, 17, 31, 0, -3, -4, -1});
  expect(b_.map(Function::kPower, a, b), {1162261467, 1977326743, -129140163, kLeast, 1, -1, 1, 0});
  expect(b_.map(Function::kPower, a, 13.0),
         {1594323, static_cast<double>(static_cast<int32_t>(96889010407 & 0xFFFFFFFF)), -1594323,
          8192, 0, -1, -1, 1220703125});
  const Value small = wholes(Type::kU8, {3, 255, 2});
  expect(b_.map(Function::kPower, small, wholes(Type::kU8, {6, 3, 200})), {217, 255, 0});
  run();
}

TEST_F(EdgeValues, FoldedWholeNumbersKeepTheLowBitsAndTheOrderOfTheirType) {
  const auto folded = [&](Function function, Value x) { return b_.reduce(function, x, {0}, true); };
  expect(folded(Function::kAdd, wholes(Type::kU8, {200, 100, 31})), {75});
  expect(folded(Function::kAdd, wholes(Type::kI8, {100, 100, 4})), {-52});
  expect(folded(Function::kMultiply, wholes(Type::kI16, {300, 300})), {24464});
  const Value wide = wholes(Type::kU32, {7, 4294967295, 2147483648, 0});
  expect(folded(Function::kMaximum, wide), {4294967295});
  expect(folded(Function::kMinimum, wide), {0});
  run();
}

TEST_F(EdgeValues, ScatteredWholeNumbersKeepTheLowBitsAndTheOrderOfTheirType) {
  const Value places = wholes(Type::kI64, {1, 1, 0});
  const auto scattered = [&](Type type, Function function, std::vector<int64_t> data,
                             std::vector<int64_t> rows) {
    const Value to = b_.reshape(wholes(type, std::move(data)), {2, 1});
    const Value from = b_.reshape(wholes(type, std::move(rows)), {3, 1});
    return b_.scatter(to, places, from, function);
  };
  expect(scattered(Type::kU8, Function::kAdd, {250, 250}, {10, 20, 3}), {253, 24});
  expect(scattered(Type::kU32, Function::kMaximum, {5, 5}, {3000000000, 7, 2}), {5, 3000000000});
  run();
}

TEST_F(EdgeValues, ProductsOfWholeNumbersKeepTheLowBits) {
  constexpr int64_t kRows = 3, kDepth = 600, kColumns = 5;
  for (const Type type : {Type::kU8, Type::kI32, Type::kU32}) {
    std::vector<int64_t> left, right;
    uint32_t state = 1;
    const auto next = [&] {
      state = state * 1664525 + 1013904223;
      // Bytes are large, so that their sums pass 2^24.
      return graph::wrapped(type, type == Type::kU8 ? 255 - state % 4 : state);
    };
    for (int64_t i = 0; i < kRows * kDepth; ++i) left.push_back(next());
    for (int64_t i = 0; i < kDepth * kColumns; ++i) right.push_back(next());
    std::vector<double> sums;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        sum += static_cast<uint32_t>(left[static_cast<size_t>(i / kColumns * kDepth + k)]) *
               static_cast<uint32_t>(right[static_cast<size_t>(k * kColumns + i % kColumns)]);
      }
      sums.push_back(type == Type::kU32 ? sum : static_cast<double>(static_cast<int32_t>(sum)));
    }
    const Type wide = type == Type::kU8 ? Type::kI32 : type;
    const Value a = b_.cast(b_.reshape(wholes(type, left), {kRows, kDepth}), wide);
    const Value b = b_.cast(b_.reshape(wholes(type, right), {kDepth, kColumns}), wide);
    expect(b_.reshape(b_.product(a, b), {kRows * kColumns}), sums);
  }
  run();
}

TEST_F(EdgeValues, RealNumbersBecomeTheNearestEndOfAWholeType) {
  const std::vector<double> list = {-kInfinity, -3e9, -129,  -0.9, 0.9, 127.5,     254.9,
                                    300,        7e4,  2.2e9, 3e9,  5e9, kInfinity, kNan};
  const Value x = reals(list);
  const auto ends = [&](double least, double most) {
    std::vector<double> values;
    for (const double value : list) {
      const double cut = std::trunc(static_cast<float>(value));
      values.push_back(std::isnan(value) ? 0 : std::min(std::max(cut, least), most));
    }
    return values;
  };
  expect(b_.cast(x, Type::kI8), ends(-128, 127));
  expect(b_.cast(x, Type::kU8), ends(0, 255));
  expect(b_.cast(x, Type::kI16), ends(-32768, 32767));
  expect(b_.cast(x, Type::kU16), ends(0, 65535));
  expect(b_.cast(x, Type::kI32), ends(-2147483648.0, 2147483647.0));
  expect(b_.cast(x, Type::kU32), ends(0, 4294967295.0));
  run();
}

TEST_F(EdgeValues, TheAreaOfNumbersNearOneKeepsItsDigits) {
  std::vector<double> list, areas;
  for (const double rest : {1e-5, 1e-4, 1e-3, 1e-2}) {
    list.push_back(static_cast<float>(1 + rest));
    areas.push_back(std::acosh(list.back()));
  }
  const Value found = b_.map(Function::kAcosh, reals(list));
  // A part in ten thousand; the square of x alone loses more than a part in a hundred.
  for (const double sign : {1.0, -1.0}) {
    Tensor near = Tensor::zeros(Type::kF32, {4});
    for (size_t i = 0; i < 4; ++i) near.set(i, areas[i] * (1 + sign * 1e-4));
    const Function order = sign > 0 ? Function::kLess : Function::kGreater;
    expect(b_.cast(b_.map(order, found, b_.constant(near)), Type::kF32), {1, 1, 1, 1});
  }
  run();
}

TEST_F(EdgeValues, TheBestElementIsTheFirstNan) {
  const Value x = reals({1, kNan, 9, kNan, -3});
  expect(b_.best_index(x, 0, true, false), {1});
  expect(b_.best_index(x, 0, false, true), {3});
  run();
}

TEST_F(EdgeValues, WideNumbersAndMovesOfManyElementsTakeSeveralTransfers) {
  constexpr int64_t kRows = 700, kColumns = 1500;
  Tensor tensor = Tensor::zeros(Type::kI64, {kRows, kColumns});
  std::vector<double> turned(static_cast<size_t>(kRows * kColumns));
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    tensor.integers[static_cast<size_t>(i)] = i % 65521 - 30000;
    turned[static_cast<size_t>(i % kColumns * kRows + i / kColumns)] =
        static_cast<double>(i % 65521 - 30000);
  }
  expect(b_.transpose(give(std::move(tensor)), {1, 0}), turned);
  run({2});
}

}  // namespace
}  // namespace neuron
