// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_cost.h"

#include <gtest/gtest.h>

namespace neuron::runtime {
namespace {

TEST(AsyncCost, IsStartDescriptorsAndBytes) {
  EXPECT_EQ(transfer_cost_ps(0), 0u);
  EXPECT_EQ(transfer_cost_ps(1), 1'300'000u + 50'000 + 36);
  EXPECT_EQ(transfer_cost_ps(17), 1'300'000u + 50'000 + 625);
  EXPECT_EQ(transfer_cost_ps(65536), 1'300'000u + 50'000 + 65536ull * 625 / 17);
  EXPECT_EQ(transfer_cost_ps(65537), 1'300'000u + 100'000 + 65537ull * 625 / 17);
}

}  // namespace
}  // namespace neuron::runtime
