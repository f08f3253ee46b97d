// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/driver.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace neuron::ccom {
namespace {

TEST(Driver, ShowsTheTorusOfAnEmulatedHostWithItsRings) {
  ASSERT_EQ(setenv("NEURON_EMULATOR", "trn1.32xlarge", 1), 0);
  const auto profile = profile_of_driver();
  ASSERT_TRUE(profile) << profile.error().sentence;
  const auto known = Topology::profile("trn1.32xlarge");
  EXPECT_EQ(profile->chips, 16u);
  EXPECT_EQ(profile->rings, known->rings);
  for (const auto& list : profile->neighbours) EXPECT_EQ(list.size(), 4u);
}

}  // namespace
}  // namespace neuron::ccom
