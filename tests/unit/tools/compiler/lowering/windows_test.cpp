// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/windows.h"

#include <gtest/gtest.h>

#include "tools/compiler/graph/builder.h"

namespace neuron::lowering {
namespace {

using graph::Builder;
using graph::Type;
using graph::Value;

TEST(Windows, AreSeenInTheImageWithTheirPadding) {
  Builder b("windows");
  const Value x = b.input("x", Type::kF32, {2, 5, 7, 9});
  // 3 x 3, two apart, one element outside on each side
  const Value all = b.windows(x, 1, {{1, 1, 5, 1, 0}, {3, 1, 4, 2, -1}, {3, 1, 5, 2, -1}}, 0, true);
  const auto found = columns_of(b.graph(), b.reshape(all, {2, 45, 20}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->source, x);
  EXPECT_EQ(found->stride_y, 2);
  EXPECT_EQ(found->stride_x, 2);
  EXPECT_EQ(found->origins[0].y, -1);
  EXPECT_EQ(found->origins[5].x, 1);
  EXPECT_EQ(found->origins[5].y, 0);
  EXPECT_EQ(found->top(), -1);
  EXPECT_EQ(found->bottom(), 8);
  EXPECT_FALSE(found->inside());
}

TEST(Windows, AreNotSeenInAMoveThatLeavesOutElementsOfTheImage) {
  Builder b("pad");
  const Value x = b.input("x", Type::kF32, {1, 1, 3});
  graph::Region second, first;
  second.to = 1;
  second.from = 2;
  first.to = 2;
  first.dimensions = {{2, 1, 1}};
  EXPECT_FALSE(pool_of(b.graph(), b.regions({x}, {1, 1, 2, 1, 2}, {second, first})));
}

TEST(Windows, OfFewChannelsAreSummedByTheRowsThatAStrideSkips) {
  Builder b("chunk");
  const Value x = b.input("x", Type::kF32, {1, 3, 20, 20});
  const Value w = b.input("w", Type::kF32, {1, 147, 8});
  Value all = b.windows(x, 1, {{1, 1, 3, 1, 0}, {7, 1, 10, 2, -3}, {7, 1, 10, 2, -3}}, 0, true);
  all = b.batched_product(w, b.reshape(all, {1, 147, 100}), true);
  const graph::Graph graph = b.finish();
  const auto parts = depth_parts(graph, graph.nodes[static_cast<size_t>(all)]);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].count, 2 * 7 * 3);
  EXPECT_EQ(parts[3].first, 6 * 7 * 3);
  EXPECT_EQ(parts[3].count, 7 * 3);
}

TEST(Windows, OfOneLongLineAreCutAtTheNumberOfPartitions) {
  Builder b("line");
  const Value x = b.input("x", Type::kF32, {1, 3, 400});
  const Value w = b.input("w", Type::kF32, {1, 300, 8});
  Value all = b.windows(x, 1, {{1, 1, 3, 1, 0}, {100, 2, 50, 4, 0}}, 0, true);
  all = b.batched_product(w, b.reshape(all, {1, 300, 50}), true);
  const graph::Graph graph = b.finish();
  const auto parts = depth_parts(graph, graph.nodes[static_cast<size_t>(all)]);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].count, 126);  // 42 whole offsets
  EXPECT_EQ(parts[2].first, 252);
  EXPECT_EQ(parts[2].count, 48);
}

}  // namespace
}  // namespace neuron::lowering
