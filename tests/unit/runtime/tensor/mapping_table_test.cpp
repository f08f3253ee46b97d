// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/mapping_table.h"

#include <gtest/gtest.h>

namespace neuron::runtime {
namespace {

TEST(MappingTable, FindsTheRangeThatHoldsAllBytes) {
  MappingTable table;
  table.add(reinterpret_cast<void*>(0x1000), 0x100);
  table.add(reinterpret_cast<void*>(0x3000), 0x100);
  EXPECT_TRUE(table.find(0x1000, 0x100));
  EXPECT_EQ(table.find(0x10FF, 1)->start, 0x1000u);
  EXPECT_FALSE(table.find(0x10FF, 2));
  EXPECT_FALSE(table.find(0xFFF, 1));
  EXPECT_FALSE(table.find(0x1000, ~0ull));
  table.remove(reinterpret_cast<void*>(0x1000));
  EXPECT_FALSE(table.find(0x1000, 1));
}

}  // namespace
}  // namespace neuron::runtime
