// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/row_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tools/compiler/graph/builder.h"

namespace neuron::lowering {
namespace {

using graph::Builder;
using graph::Function;
using graph::Type;
using graph::Value;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Value counted(Builder& b, const graph::Shape& shape, double first) {
  graph::Tensor tensor = graph::Tensor::zeros(Type::kF32, shape);
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
    tensor.set(i, first + static_cast<double>(i));
  }
  return b.constant(std::move(tensor));
}

TEST(RowNumbers, AreConstantsOfChannelsAndNoOthers) {
  Builder b("numbers");
  const Value x = b.input("x", Type::kF32, {2, 160, 24, 24});
  const Value bias = counted(b, {1, 160, 1, 1}, 1), plane = counted(b, {1, 1, 24, 24}, 0),
              other = counted(b, {1, 160, 1, 1}, 1000);
  Value y = b.map(Function::kAdd, x, bias);
  y = b.map(Function::kMultiply, y, plane);
  y = b.map(Function::kMultiply, y, other);
  b.output("y", b.map(Function::kAdd, y, bias));
  const graph::Graph graph = b.finish();
  const std::vector<Value> values = row_numbers(graph, graph::needed(graph));
  EXPECT_THAT(values, ElementsAre(bias, other));
  const std::vector<uint8_t> bytes = number_bytes(graph, values);
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  ASSERT_EQ(numbers.size(), size_t{4 * 128});
  const auto lane = [&](size_t i) {
    return std::vector<float>(numbers.begin() + static_cast<ptrdiff_t>(4 * i),
                              numbers.begin() + static_cast<ptrdiff_t>(4 * i + 4));
  };
  EXPECT_THAT(lane(0), ElementsAre(1, 129, 1000, 1128));
  EXPECT_THAT(lane(32), ElementsAre(33, 0, 1032, 0));
}

TEST(RowNumbers, AreNoneWhereRowsAreFew) {
  Builder b("few");
  const Value x = b.input("x", Type::kF32, {1, 8, 5, 5});
  b.output("y", b.map(Function::kAdd, x, counted(b, {1, 8, 1, 1}, 1)));
  const graph::Graph graph = b.finish();
  EXPECT_THAT(row_numbers(graph, graph::needed(graph)), IsEmpty());
}

}  // namespace
}  // namespace neuron::lowering
