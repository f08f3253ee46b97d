// SPDX-License-Identifier: Apache-2.0
// Values on the chip whose elements another value has in another order.
#include "tests/system/onnx/device_test.h"
#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::compile {
namespace {

using graph::Function;
using graph::Shape;
using graph::Type;

class Moves : public DeviceTest {
 protected:
  // x with zeros around it, of whose axes the last one lies on partitions then.
  static graph::Value framed(graph::Builder& builder, const Shape& shape) {
    return builder.pad(builder.input("x", Type::kF32, shape), {0, 1, 0}, {1, 0, 2}, 0);
  }

  static void compare(graph::Builder& builder, const Shape& shape) {
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

TEST_F(Moves, TakeRowsBackwardsThatAreColumnsOnTheChip) {
  const Shape shape = {7, 2, 131};
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{3, 0, 4, 2}, {7, 6, 5, 4, 3, 2, 1, 0}, {2, 1, 2, 0}, {6, 4, 2, 0}}) {
    SCOPED_TRACE(testing::PrintToString(rows));
    graph::Builder builder("backwards");
    const graph::Value picked = builder.pick(framed(builder, shape), 0, rows);
    builder.output("y", builder.map(Function::kErf, picked));
    compare(builder, shape);
  }
}

// Maps read what was moved in its place; here both axes that change places are columns.
TEST_F(Moves, ExchangeTwoAxesInFrontOfTheOneThatLiesOnPartitions) {
  for (const Shape& shape : {Shape{7, 2, 131}, Shape{3, 5, 40}, Shape{2, 9, 260}}) {
    SCOPED_TRACE(graph::shape_text(shape));
    graph::Builder builder("exchanged");
    const graph::Value exchanged = builder.transpose(framed(builder, shape), {1, 0, 2});
    const Shape to = builder.shape(exchanged);
    const std::vector<float> more =
        seeded_numbers(static_cast<size_t>(graph::elements_of(to)), 1, 5);
    const graph::Value constant =
        builder.constant(graph::Tensor::of_reals(Type::kF32, to, {more.begin(), more.end()}));
    builder.output("y", builder.add(exchanged, constant));
    compare(builder, shape);
  }
}

}  // namespace
}  // namespace neuron::compile
