// SPDX-License-Identifier: Apache-2.0
// Model time of custom operators, by what they have counted.
#include "driver/isa/operator_cost.h"

#include <gtest/gtest.h>

namespace neuron::isa {
namespace {

TEST(OperatorCost, OfNothingIsNothing) { EXPECT_EQ(operator_time({}, 2), 0u); }

TEST(OperatorCost, OfAnElementIsAHundredCycles) {
  EXPECT_EQ(operator_time({.elements = 14}, 2), 1'000'000u);  // 1.4 GHz
  EXPECT_EQ(operator_time({.elements = 12}, 3), 1'000'000u);  // 1.2 GHz
}

TEST(OperatorCost, OrdersTheAccessorsAsTheGuideDoes) {
  constexpr uint64_t kCount = 1024;  // floats
  const ModelTime elements = operator_time({.elements = kCount}, 2);
  const ModelTime stream =
      operator_time({.stream_elements = kCount, .transfers = 1, .transfer_bytes = 4 * kCount}, 2);
  const ModelTime tcm = operator_time({.transfers = 1, .transfer_bytes = 4 * kCount}, 2);
  EXPECT_LT(tcm, stream);
  EXPECT_LT(stream, elements);
}

TEST(OperatorCost, CutsOffWhatNobodyCanHaveCounted) {
  constexpr uint64_t kAll = UINT64_MAX;
  EXPECT_EQ(operator_time({.elements = kAll}, 2), kMostOperatorTime);
  EXPECT_EQ(operator_time({.transfers = kAll}, 2), kMostOperatorTime);
  EXPECT_EQ(operator_time({kAll, kAll, kAll, kAll}, 4), kMostOperatorTime);
}

}  // namespace
}  // namespace neuron::isa
