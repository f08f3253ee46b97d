// SPDX-License-Identifier: Apache-2.0
// Values on the chip whose elements another value has in the opposite order.
#include "tests/system/onnx/device_test.h"
#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::compile {
namespace {

using graph::Function;
using graph::Shape;
using graph::Type;

class Reversed : public DeviceTest {
 protected:
  static graph::Value layer(graph::Builder& builder, graph::Value x, int64_t columns) {
    const int64_t depth = builder.size(x, 1);
    const std::vector<float> weights = seeded_numbers(static_cast<size_t>(depth * columns), 0.1, 5);
    const graph::Value w = builder.constant(
        graph::Tensor::of_reals(Type::kF32, {depth, columns}, {weights.begin(), weights.end()}));
    const graph::Value sum = builder.map(Function::kMaximum, builder.product(x, w), 0.0);
    return builder.map(Function::kTanh, sum);
  }

  // Rows, in no order, of a value that follows from a product, whose columns lie on partitions.
  static void expect_reference(const Shape& shape, int64_t columns,
                               const std::vector<int64_t>& rows) {
    graph::Builder builder("reversed");
    const graph::Value x = builder.input("x", Type::kF32, shape);
    const graph::Value hidden = layer(builder, x, 257);
    const graph::Value product = layer(builder, hidden, columns);
    const graph::Value framed = builder.pad(product, {2, 2}, {0, 0}, 0);
    const graph::Value most = builder.reduce(Function::kMaximum, framed, {1}, true);
    const graph::Value y = builder.map(Function::kExp, builder.subtract(framed, most));
    builder.output("y", builder.map(Function::kErf, builder.pick(y, 0, rows)));
    ASSERT_TRUE(builder.ok()) << builder.problem();
    const graph::Graph graph = builder.finish();
    const std::vector<float> numbers =
        seeded_numbers(static_cast<size_t>(graph::elements_of(shape)), 1, 4);
    const auto input = std::make_shared<const graph::Tensor>(
        graph::Tensor::of_reals(Type::kF32, shape, {numbers.begin(), numbers.end()}));
    const auto expected = graph::evaluate(graph, {input});
    for (const int level : {0, 2}) {
      auto lowered = lowering::lower(graph, {.level = level});
      ASSERT_TRUE(lowered) << lowered.error().sentence;
      auto run = run_on_device(lowered->neff, graph, {input});
      ASSERT_TRUE(run) << "-O" << level << ": " << run.error().sentence;
      EXPECT_EQ(difference(*run->outputs[0], *expected[0], Bound{1e-5, 1e-3, 2e-3}), "");
    }
  }
};

TEST_F(Reversed, ElementsAreThoseOfTheReferenceInEveryLayout) {
  expect_reference({3, 5}, 17, {3, 0, 4, 2});
  expect_reference({3, 5}, 17, {4, 3, 2, 1, 0});
  expect_reference({1, 64}, 130, {2, 1, 2, 0});
  expect_reference({38, 7}, 40, {39, 0, 38, 1, 37, 36, 35});
}

}  // namespace
}  // namespace neuron::compile
