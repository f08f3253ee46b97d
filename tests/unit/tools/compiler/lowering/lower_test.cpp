// SPDX-License-Identifier: Apache-2.0
// What needs no device: the values of programs are tested in tests/system/onnx.
#include "tools/compiler/lowering/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/neff/container.h"
#include "tools/compiler/graph/builder.h"

namespace neuron::lowering {
namespace {

using graph::Builder;
using graph::Function;
using graph::RefusalClass;
using graph::Type;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// y = relu(x * 2 + 1) @ w
Graph small_graph() {
  Builder b("small");
  const Value x = b.input("x", Type::kF32, {3, 5});
  Value y = b.map(Function::kAdd, b.map(Function::kMultiply, x, 2.0), 1.0);
  y = b.map(Function::kMaximum, y, 0.0);
  y = b.product(y, b.constant(graph::Tensor::zeros(Type::kF32, {5, 2})));
  b.output("y", y);
  return b.finish();
}

Lowered lowered(const Graph& graph, const Options& options = {}) {
  auto result = lower(graph, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().sentence);
  return result ? std::move(*result) : Lowered{};
}

TEST(Lowering, GivesTheSameBytesForTheSameGraph) {
  const Lowered first = lowered(small_graph());
  EXPECT_THAT(first.refusals, IsEmpty());
  EXPECT_FALSE(first.neff.empty());
  EXPECT_EQ(first.neff, lowered(small_graph()).neff);
}

TEST(Lowering, JoinsMapsUnlessItMayNot) {
  Options options;
  const size_t joined = lowered(small_graph(), options).tasks;
  options.level = 0;
  EXPECT_EQ(lowered(small_graph(), options).tasks, joined + 2);
}

TEST(Lowering, LoadsWholeRowsThatAreReducedAsOneRunOfBytesEach) {
  Builder b("sums");
  b.output("y", b.reduce(Function::kAdd, b.input("x", Type::kF32, {128, 512}), {1}, false));
  Options options;
  options.level = 0;
  // 128 descriptors of 2 KiB; one for each element would take 336 us.
  EXPECT_LT(lowered(b.finish(), options).moved.dma_us, 5);
}

TEST(Lowering, MovesConstantsInputsAndOutputsOnlyWhereValuesFitSbuf) {
  const auto graph = [] {
    Builder b("layers");
    Value x = b.input("x", Type::kF32, {64, 128});
    for (int layer = 0; layer < 3; ++layer) {
      x = b.product(x, b.constant(graph::Tensor::zeros(Type::kF32, {128, 128})));
      x = b.map(Function::kTanh, x);
    }
    b.output("y", x);
    return b.finish();
  };
  constexpr uint64_t kLeast = (2 * 64 * 128 + 3 * 128 * 128) * 4;
  EXPECT_EQ(lowered(graph()).moved.bytes, kLeast);
  Options options;
  options.level = 0;
  EXPECT_GT(lowered(graph(), options).moved.bytes, kLeast * 3 / 2);
}

Value zeros(Builder& b, const graph::Shape& shape) {
  return b.constant(graph::Tensor::zeros(Type::kF32, shape));
}

// Of one pixel, on a square image.
Value convolved(Builder& b, Value x, int64_t outputs, int64_t inputs, int64_t side) {
  const Builder::Window window{.count = side};
  return b.convolution(x, zeros(b, {outputs, inputs, 1, 1}), {window, window}, 1);
}

TEST(Lowering, LoadsTheBiasesOfAllLayersTogether) {
  constexpr int kLayers = 5;
  Builder b("biases");
  Value x = b.input("x", Type::kF32, {1, 64, 14, 14});
  for (int layer = 0; layer < kLayers; ++layer) {
    x = b.map(Function::kAdd, convolved(b, x, 64, 64, 14), zeros(b, {1, 64, 1, 1}));
  }
  b.output("y", x);
  // Weights, biases, the input and the output.
  EXPECT_EQ(lowered(b.finish()).moved.transfers, size_t{kLayers + 3});
}

TEST(Lowering, WritesASumOverAnOperandThatNobodyReadsAnyMore) {
  constexpr int64_t kSide = 64, kFew = 64, kMany = 256;
  Builder b("residual");
  const Value input = b.input("x", Type::kF32, {1, kFew, kSide, kSide});
  const Value x = convolved(b, input, kFew, kFew, kSide);
  // A partition has 32 KiB of each operand and of the sum, and room for two of these.
  const Value first = convolved(b, x, kMany, kFew, kSide);
  const Value second = convolved(b, x, kMany, kFew, kSide);
  const Value sum = b.map(Function::kAdd, first, second);
  b.output("y", convolved(b, sum, kFew, kMany, kSide));
  constexpr uint64_t kLeast = 4 * (2 * kFew * kSide * kSide + kFew * kFew + 3 * kFew * kMany);
  EXPECT_EQ(lowered(b.finish()).moved.bytes, kLeast);
}

TEST(Lowering, KeepsAnOperandOfASumThatSomebodyReadsLater) {
  Builder b("read twice");
  const Value x = convolved(b, b.input("x", Type::kF32, {1, 64, 14, 14}), 64, 64, 14);
  const Value first = convolved(b, x, 64, 64, 14);
  const Value sum = b.map(Function::kAdd, first, convolved(b, x, 64, 64, 14));
  b.output("sum", convolved(b, sum, 64, 64, 14));
  b.output("first", convolved(b, first, 64, 64, 14));
  constexpr uint64_t kLeast = 4 * (3 * 64 * 14 * 14 + 5 * 64 * 64);
  EXPECT_EQ(lowered(b.finish()).moved.bytes, kLeast);
}

// There are 2^32 ways from the value to the sum.
TEST(Lowering, AsksEachMoveOnceWhetherWhatItReadsIsSpent) {
  Builder b("diamonds");
  const Value first = b.map(Function::kTanh, b.input("x", Type::kF32, {8, 4}));
  Value value = first;
  for (int n = 0; n < 32; ++n) {
    value = b.concat({b.pick(value, 0, {3, 1, 2, 0}), b.pick(value, 0, {7, 5, 6, 4})}, 0);
  }
  b.output("y", b.map(Function::kAdd, b.map(Function::kAbsolute, value), first));
  const Graph graph = b.finish();
  size_t moves = 0;
  for (const graph::Node& node : graph.nodes) moves += node.kind == graph::Kind::kMove ? 1 : 0;
  EXPECT_GE(moves, 96u);
  EXPECT_FALSE(lowered(graph).neff.empty());
}

TEST(Lowering, MultipliesOneRowThatLiesAsAColumnWithoutMovingIt) {
  Builder b("head");
  const Value x = b.input("x", Type::kF32, {1, 256, 7, 7});
  const Value sums = b.reduce(Function::kAdd, x, {2, 3}, false);
  b.output("y", b.product(sums, zeros(b, {256, 10})));
  EXPECT_EQ(lowered(b.finish()).moved.bytes, uint64_t{4 * (256 * 7 * 7 + 256 * 10 + 10)});
}

TEST(Lowering, DividesManyTilesOfOneColumnTogether) {
  const auto microseconds = [](int64_t channels) {
    Builder b("average");
    const Value x = b.input("x", Type::kF32, {1, channels, 3, 3});
    b.output("y", b.map(Function::kDivide, b.reduce(Function::kAdd, x, {2, 3}, false), 9.0));
    const Lowered made = lowered(b.finish());
    return made.predicted ? made.predicted->microseconds : 0;
  };
  // Sixteen tiles, one after the other, would take 50 us more than one.
  EXPECT_LT(microseconds(2048) - microseconds(128), 30);
}

TEST(Lowering, SaysWhereValuesAreLessExactThanTheModelAsks) {
  Builder b("wide");
  b.output("y", b.map(Function::kNegate, b.input("x", Type::kI64, {3})));
  b.output("z", b.map(Function::kNegate, b.input("w", Type::kF64, {3})));
  const std::vector<std::string> notes = lowered(b.finish()).notes;
  EXPECT_THAT(notes, Contains(HasSubstr("computed in 32 bits")));
  EXPECT_THAT(notes, Contains(HasSubstr("f64 is computed in f32")));
}

TEST(Lowering, GivesTheBuildersSentenceWhenItRefusesABuffer) {
  Builder b("twins");
  const Value x = b.input("same", Type::kF32, {64, 3});
  const Value y = b.input("same", Type::kF32, {64});
  b.output("y", b.add(b.transpose(x, {1, 0}), y));
  const auto result = lower(b.finish(), {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().sentence, HasSubstr("two buffers have the name \"same\""));
}

TEST(Lowering, RefusesValuesWithoutElements) {
  Builder b("empty");
  const Value x = b.input("x", Type::kF32, {3});
  b.output("y", b.slice(x, {{0, 0, 1}}));
  const Lowered result = lowered(b.finish());
  ASSERT_FALSE(result.refusals.empty());
  EXPECT_EQ(result.refusals[0].kind, RefusalClass::kEmpty);
}

TEST(Lowering, RefusesRowsThatAreTooLongToBeTakenByNumber) {
  Builder b("rows");
  const Value data = b.input("x", Type::kF32, {2, kMostRowElements + 1});
  b.origin("the gather");
  b.output("y", b.gather(data, b.input("i", Type::kI64, {1})));
  const Lowered result = lowered(b.finish());
  ASSERT_EQ(result.refusals.size(), 1u);
  EXPECT_EQ(result.refusals[0].node, "the gather");
  EXPECT_THAT(result.refusals[0].sentence, HasSubstr("at most 8192"));
}

// Instructions of a kernel belong to the node that it came from, whatever comes before it.
TEST(Lowering, NamesTheSectionOfAKernelAfterItsNode) {
  constexpr const char* kTrace =
      R"({"op":"nki_trace","version":1,"kernel":"k","target":"trn1","files":["k.py"]}
{"op":"hbm","id":0,"name":"x","kind":"input","dtype":"float32","shape":[128,64],"at":[0,1]}
{"op":"hbm","id":1,"name":"y","kind":"output","dtype":"float32","shape":[128,64],"at":[0,2]}
{"op":"tile","id":2,"space":"sbuf","name":"t","parts":128,"columns":64,"dtype":"float32","at":[0,3]}
{"op":"dma_copy","at":[0,4],"dst":{"tile":2,"dtype":"float32","parts":128,"pattern":[[1,64]]},"src":{"hbm":0,"dtype":"float32","pattern":[[64,128],[1,64]]}}
{"op":"dma_copy","at":[0,5],"dst":{"hbm":1,"dtype":"float32","pattern":[[64,128],[1,64]]},"src":{"tile":2,"dtype":"float32","parts":128,"pattern":[[1,64]]}}
)";
  Builder b("kernels");
  b.origin("the sum");
  const Value x = b.map(Function::kAdd, b.input("x", Type::kF32, {128, 64}), 1.0);
  b.origin("the kernel");
  const std::vector<Value> results = b.kernel(kTrace, {x}, {{Type::kF32, {128, 64}}});
  ASSERT_TRUE(b.ok()) << b.problem();
  b.origin("the product");
  b.output("y", b.map(Function::kMultiply, results[0], 2.0));
  const Lowered result = lowered(b.finish());
  ASSERT_THAT(result.refusals, IsEmpty());
  const auto container = neff::Container::open(result.neff);
  ASSERT_TRUE(container) << container.error().sentence;
  std::string all;
  for (const neff::Member& member : container->members()) {
    all.append(member.bytes.begin(), member.bytes.end());
  }
  for (const char* node : {"the sum", "the kernel", "the product"}) {
    EXPECT_NE(all.find(node), std::string::npos) << node;
  }
}

TEST(Lowering, SurvivesTensorsOfTheModelWithNamesOfItsOwnBuffers) {
  Builder b("names");
  const Value x = b.input("value_0", Type::kI64, {3});
  b.output("constant_1", b.map(Function::kAdd, x, b.integers({1, 2, 3})));
  EXPECT_THAT(lowered(b.finish()).refusals, IsEmpty());
}

}  // namespace
}  // namespace neuron::lowering
