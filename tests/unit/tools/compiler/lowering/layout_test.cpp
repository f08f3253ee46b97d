// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/layout.h"

#include <gtest/gtest.h>

#include "tools/compiler/graph/builder.h"

namespace neuron::lowering {
namespace {

using graph::Builder;
using graph::Type;
using graph::Value;

TEST(Layout, FindsWhereARepeatedElementComesFrom) {
  Builder b("mean");
  const Value rows = b.expand(b.input("x", Type::kF32, {2, 64, 1}), {2, 64, 128});
  const auto strides = strides_in(b.graph(), rows, {1, 128, 128});
  ASSERT_TRUE(strides);
  EXPECT_EQ(strides->row, 1);
  EXPECT_EQ(strides->inner, 0);
  EXPECT_TRUE(is_broadcast(b.graph(), rows));
}

TEST(Layout, HasNoStridesForAMoveThatItsRowsCut) {
  Builder b("turned");
  const Value turned = b.transpose(b.input("x", Type::kF32, {6, 5}), {1, 0});
  EXPECT_TRUE(strides_in(b.graph(), turned, {1, 5, 6}));
  EXPECT_FALSE(strides_in(b.graph(), turned, {1, 3, 10}));
  EXPECT_FALSE(is_broadcast(b.graph(), turned));
}

}  // namespace
}  // namespace neuron::lowering
