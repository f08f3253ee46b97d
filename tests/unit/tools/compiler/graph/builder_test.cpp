// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tools/compiler/graph/interpreter.h"

namespace neuron::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Value numbers(Builder& b, Shape shape, std::vector<int64_t> values) {
  return b.constant(Tensor::of_integers(Type::kI64, std::move(shape), std::move(values)));
}

std::vector<int64_t> values_of(const Builder& b, Value value) {
  const Tensor* tensor = b.constant_of(value);
  return tensor != nullptr ? tensor->integers : std::vector<int64_t>{-999};
}

TEST(GraphBuilder, ComputesConstantsWhileItBuilds) {
  Builder b("g");
  const Value sum = b.add(numbers(b, {2, 1}, {1, 2}), numbers(b, {3}, {10, 20, 30}));
  EXPECT_EQ(b.shape(sum), (Shape{2, 3}));
  EXPECT_THAT(values_of(b, sum), ElementsAre(11, 21, 31, 12, 22, 32));
}

// A copy of the weights of a large model for each of their shapes took most of its compilation.
TEST(GraphBuilder, GivesAConstantAnotherShapeWithoutCopyingItsElements) {
  Builder b("g");
  const Value matrix = numbers(b, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Value list = b.reshape(matrix, {6});
  EXPECT_EQ(b.constant_of(list), b.constant_of(matrix));
  EXPECT_EQ(b.shape(list), (Shape{6}));
  b.output("list", list);
  b.output("matrix", matrix);
  const Value sum =
      b.select(b.constant(Tensor::of_integers(Type::kBool, {3, 2}, {1, 0, 0, 0, 0, 1})),
               numbers(b, {3, 2}, {9, 9, 9, 9, 9, 9}), b.reshape(matrix, {3, 2}));
  EXPECT_EQ(b.shape(sum), (Shape{3, 2}));
  EXPECT_THAT(values_of(b, sum), ElementsAre(9, 2, 3, 4, 5, 9));
  const auto outputs = evaluate(b.finish(), {});
  EXPECT_EQ(outputs[0]->shape, (Shape{6}));
  EXPECT_EQ(outputs[1]->shape, (Shape{2, 3}));
}

TEST(GraphBuilder, LeavesWhatDependsOnInputsToTheProgram) {
  Builder b("g");
  const Value x = b.input("x", Type::kF32, {4});
  EXPECT_EQ(b.constant_of(b.map(Function::kAdd, x, 1.0)), nullptr);
}

TEST(GraphBuilder, KeepsANumberForEachChannelWhenAnInputMeetsIt) {
  Builder b("g");
  const Value bias = b.constant(Tensor::zeros(Type::kF32, {64, 1, 1}));
  b.output("y", b.add(b.input("x", Type::kF32, {1, 64, 16, 16}), bias));
  const Graph graph = b.finish();
  for (const Node& node : graph.nodes) {
    if (node.constant != nullptr) {
      EXPECT_EQ(node.constant->elements(), 64);
    }
  }
}

TEST(GraphBuilder, KeepsTheFirstProblemAndGivesNothingAfterIt) {
  Builder b("g");
  const Value wrong = b.add(numbers(b, {2}, {1, 2}), numbers(b, {3}, {1, 2, 3}));
  EXPECT_EQ(wrong, kNone);
  EXPECT_THAT(b.problem(), HasSubstr("2 and 3, which cannot be broadcast"));
  EXPECT_EQ(b.transpose(wrong, {0}), kNone);
  b.clear();
  EXPECT_NE(numbers(b, {1}, {5}), kNone);
}

TEST(GraphBuilder, SlicesWithNegativeStepsFromTheEnd) {
  Builder b("g");
  const Value x = numbers(b, {5}, {0, 1, 2, 3, 4});
  EXPECT_THAT(values_of(b, b.slice(x, {{4, 3, -2}})), ElementsAre(4, 2, 0));
  EXPECT_EQ(b.slice(x, {{4, 4, -2}}), kNone);
}

TEST(GraphBuilder, PadsAndCutsInOneMove) {
  Builder b("g");
  const Value x = numbers(b, {2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(values_of(b, b.pad(x, {1, -1}, {0, 1}, 9)), ElementsAre(9, 9, 2, 9, 4, 9));
}

TEST(GraphBuilder, PicksRowsAndFillsThoseThatAreNotThere) {
  Builder b("g");
  const Value x = numbers(b, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(values_of(b, b.pick(x, 0, {2, 1, 0, -1, 0}, 7)),
              ElementsAre(5, 6, 3, 4, 1, 2, 7, 7, 1, 2));
}

TEST(GraphBuilder, TakesWindowsThatReachOverTheEdge) {
  Builder b("g");
  const Value x = numbers(b, {1, 4}, {1, 2, 3, 4});
  // Three windows of two elements, two apart, from one before the first element on.
  const Value rows = b.windows(x, 1, {{2, 1, 3, 2, -1}}, 0);
  EXPECT_EQ(b.shape(rows), (Shape{1, 3, 2}));
  EXPECT_THAT(values_of(b, rows), ElementsAre(0, 1, 2, 3, 4, 0));
  const Value columns = b.windows(x, 1, {{2, 1, 3, 2, -1}}, 0, true);
  EXPECT_THAT(values_of(b, columns), ElementsAre(0, 2, 4, 1, 3, 0));
}

TEST(GraphBuilder, FoldsAxesThatAreApart) {
  Builder b("g");
  const Value x = numbers(b, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(values_of(b, b.reduce(Function::kAdd, x, {0, 2}, false)), ElementsAre(14, 22));
  EXPECT_THAT(values_of(b, b.reduce(Function::kMaximum, x, {-2}, true)), ElementsAre(3, 4, 7, 8));
}

TEST(GraphBuilder, FindsTheFirstOrTheLastOfEqualBestElements) {
  Builder b("g");
  const Value x = numbers(b, {4}, {3, 7, 7, 1});
  EXPECT_THAT(values_of(b, b.best_index(x, 0, true, false)), ElementsAre(1));
  EXPECT_THAT(values_of(b, b.best_index(x, 0, true, true)), ElementsAre(2));
  EXPECT_THAT(values_of(b, b.best_index(x, 0, false, false)), ElementsAre(3));
}

TEST(GraphBuilder, MultipliesMatricesOfBroadcastBatches) {
  Builder b("g");
  const Value a = numbers(b, {2, 1, 2}, {1, 2, 3, 4});
  const Value m = numbers(b, {2, 2}, {1, 0, 1, 1});
  EXPECT_THAT(values_of(b, b.product(a, m)), ElementsAre(3, 2, 7, 4));
  const Value v = numbers(b, {2}, {10, 1});
  EXPECT_THAT(values_of(b, b.product(a, v)), ElementsAre(12, 34));
}

TEST(GraphBuilder, RefusesPlacesAndStepsThatOverflow) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Builder b("g");
  const Value x = numbers(b, {2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(values_of(b, b.slice(x, {{1, 1, kMost}, {0, 1, kLeast}})), ElementsAre(3));
  for (const Slice& part : {Slice{0, 2, kMost}, Slice{1, kMost, -1}, Slice{kLeast, 1, 1},
                            Slice{0, kMost, 0}, Slice{1, 2, kLeast}, Slice{0, kLeast, 1}}) {
    b.clear();
    EXPECT_EQ(b.slice(x, {part, {0, 3, 1}}), kNone);
    EXPECT_THAT(b.problem(), HasSubstr("of a dimension of 2"));
  }
  for (const int64_t width : {kLeast, kMost}) {
    b.clear();
    EXPECT_EQ(b.pad(x, {width, 0}, {width, 0}, 0), kNone);
    EXPECT_THAT(b.problem(), HasSubstr("a dimension of 2 with"));
  }
}

TEST(GraphBuilder, RefusesRegionsThatLieBesideTheirArrays) {
  Builder b("g");
  const Value x = numbers(b, {4}, {0, 1, 2, 3});
  const auto moved = [&](Region region) {
    b.clear();
    return b.regions({x}, {3}, {std::move(region)});
  };
  EXPECT_NE(moved({0, 0, 1, {{3, 1, 1}}}), kNone);
  EXPECT_NE(moved({0, 2, 3, {{3, -1, -1}}}), kNone);
  for (const Region& region :
       {Region{0, 1, 0, {{3, 1, 1}}}, Region{0, 0, 2, {{3, 1, 1}}}, Region{0, -1, 0, {{1, 1, 1}}},
        Region{1, 0, 0, {{1, 1, 1}}}, Region{0, 0, 0, {{3, 1, int64_t{1} << 62}}}}) {
    EXPECT_EQ(moved(region), kNone);
    EXPECT_THAT(b.problem(), HasSubstr("elements outside of an array"));
  }
}

TEST(GraphBuilder, GivesAChainOfNamesOneName) {
  Builder b("g");
  const Value x = b.input("x", Type::kF32, {2, 3});
  Value y = x;
  for (int i = 0; i < 100; ++i) y = b.reshape(b.reshape(y, {6}), {3, 2});
  EXPECT_EQ(b.graph().nodes[static_cast<size_t>(y)].operands[0], x);
  EXPECT_EQ(b.reshape(y, {2, 3}), x);
}

TEST(GraphBuilder, RefusesFunctionsThatATypeDoesNotHave) {
  Builder b("g");
  const Value whole = b.input("i", Type::kI32, {2}), real = b.input("x", Type::kF32, {2});
  EXPECT_EQ(b.map(Function::kTanh, whole), kNone);
  EXPECT_THAT(b.problem(), HasSubstr("tanh of i32; cast it before"));
  b.clear();
  EXPECT_EQ(b.map(Function::kXor, real, real), kNone);
  EXPECT_THAT(b.problem(), HasSubstr("xor of f32; cast both before"));
  b.clear();
  EXPECT_NE(b.map(Function::kFloor, whole), kNone);
  EXPECT_NE(b.map(Function::kXor, whole, whole), kNone);
}

TEST(GraphBuilder, RefusesArraysThatNoDeviceCouldHold) {
  Builder b("g");
  const Value x = b.scalar(Type::kF32, 1);
  EXPECT_EQ(b.expand(x, {int64_t{1} << 40, 0}), kNone);
  EXPECT_THAT(b.problem(), HasSubstr("is not possible"));
}

double evaluated(Function function, double x) {
  Node node;
  node.kind = Kind::kMap;
  node.function = function;
  const Tensor operand = Tensor::scalar(Type::kF64, x);
  node.type = Type::kF64;
  return evaluate_node(node, {&operand}).reals[0];
}

TEST(Interpreter, RoundsHalvesToEven) {
  EXPECT_EQ(evaluated(Function::kRound, 2.5), 2);
  EXPECT_EQ(evaluated(Function::kRound, -3.5), -4);
}

TEST(Interpreter, WrapsWholeNumbersAsTheirTypeDoes) {
  Builder b("g");
  const auto byte = [&](int64_t x) { return b.constant(Tensor::of_integers(Type::kU8, {1}, {x})); };
  EXPECT_THAT(values_of(b, b.add(byte(250), byte(10))), ElementsAre(4));
  EXPECT_THAT(values_of(b, b.subtract(byte(3), byte(5))), ElementsAre(254));
  const Value most = b.constant(Tensor::of_integers(Type::kI8, {1}, {127}));
  EXPECT_THAT(values_of(b, b.add(most, most)), ElementsAre(-2));
}

TEST(Interpreter, GivesTheModuloTheSignOfTheDivisorAndTheRemainderThatOfTheDividend) {
  Builder b("g");
  const Value a = numbers(b, {2}, {-7, 7}), d = numbers(b, {2}, {3, -3});
  EXPECT_THAT(values_of(b, b.map(Function::kModulo, a, d)), ElementsAre(2, -2));
  EXPECT_THAT(values_of(b, b.map(Function::kRemainder, a, d)), ElementsAre(-1, 1));
  EXPECT_THAT(values_of(b, b.divide(a, d)), ElementsAre(-2, -2));
}

TEST(Interpreter, KeepsNanInMaximaAndDoesNotCompareIt) {
  Builder b("g");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Value x = b.constant(Tensor::of_reals(Type::kF32, {2}, {nan, 1}));
  const Value most = b.map(Function::kMaximum, x, 5.0);
  EXPECT_TRUE(std::isnan(b.constant_of(most)->reals[0]));
  EXPECT_THAT(values_of(b, b.map(Function::kEqual, x, x)), ElementsAre(0, 1));
}

TEST(Interpreter, ScattersRowsInOrderAndSkipsThoseOutside) {
  Builder b("g");
  const Value data = numbers(b, {3, 1}, {1, 2, 3});
  const Value places = numbers(b, {4}, {0, 7, 0, -1});
  const Value rows = numbers(b, {4, 1}, {10, 20, 30, 40});
  EXPECT_THAT(values_of(b, b.scatter(data, places, rows, {})), ElementsAre(30, 2, 3));
  EXPECT_THAT(values_of(b, b.scatter(data, places, rows, Function::kAdd)), ElementsAre(41, 2, 3));
}

TEST(Interpreter, RoundsScatteredSumsToTheirType) {
  Builder b("g");
  const Value to = b.constant(Tensor::of_reals(Type::kF16, {1, 1}, {2048}));
  const Value rows = b.constant(Tensor::of_reals(Type::kF16, {1, 1}, {1.5}));
  const Value sum = b.scatter(to, numbers(b, {1}, {0}), rows, Function::kAdd);
  ASSERT_NE(b.constant_of(sum), nullptr);
  EXPECT_EQ(b.constant_of(sum)->reals[0], 2050);
}

TEST(Interpreter, KeepsTheLowBitsOfProductsAndPowers) {
  Builder b("g");
  const int64_t large = int64_t{1} << 62;
  const Value a = numbers(b, {1, 2}, {large, 3}), c = numbers(b, {2, 1}, {6, 5});
  EXPECT_THAT(values_of(b, b.product(a, c)), ElementsAre(std::numeric_limits<int64_t>::min() + 15));
  const auto wide = [&](std::vector<int64_t> values) {
    return b.constant(Tensor::of_integers(Type::kU64, {2}, std::move(values)));
  };
  // Exponents of 2^64 - 1 and 2^63.
  const Value exponents = wide({-1, std::numeric_limits<int64_t>::min()});
  EXPECT_THAT(values_of(b, b.map(Function::kPower, wide({3, 5}), exponents)),
              ElementsAre(-6148914691236517205, 1));
}

TEST(Tensor, CountsElementsThatNoNumberHolds) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(elements_of({large, large}), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(strides_of({2, large, large})[0], std::numeric_limits<int64_t>::max());
}

TEST(Tensor, HasAShapeThatSentencesName) {
  EXPECT_EQ(shape_text({}), "scalar");
  EXPECT_EQ(shape_text({7}), "7");
  EXPECT_EQ(shape_text({2, 0, 30}), "2x0x30");
  Builder b("g");
  b.size(b.scalar(Type::kF32, 1), 0);
  EXPECT_THAT(b.problem(), HasSubstr("dimension 0 of an array of scalar"));
}

TEST(Tensor, KeepsTheBitsOfItsTypeInBytes) {
  Tensor half = Tensor::zeros(Type::kF16, {2});
  half.set(0, 1.0 / 3);
  half.set(1, 70000);
  const Tensor back = Tensor::from_bytes(Type::kF16, {2}, half.bytes().data());
  EXPECT_EQ(back.reals, half.reals);
  EXPECT_TRUE(std::isinf(back.reals[1]));
  Tensor whole = Tensor::of_integers(Type::kI16, {1}, {-2});
  EXPECT_THAT(whole.bytes(), ElementsAre(0xFE, 0xFF));
}

}  // namespace
}  // namespace neuron::graph
