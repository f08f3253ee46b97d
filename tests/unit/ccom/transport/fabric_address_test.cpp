// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_address.h"

#include <gtest/gtest.h>

namespace neuron::ccom {
namespace {

TEST(FabricAddress, IsTheOneOnTheWayToTheRoot) {
  EXPECT_EQ(address_towards("127.0.0.1:4000"), "127.0.0.1");
  EXPECT_EQ(address_towards("127.3.2.1:4000"), "127.0.0.1");
}

TEST(FabricAddress, IsEmptyForWhatIsNoAddress) {
  for (const char* root : {"", "localhost:4000", "127.0.0.1", "[::1:4000", "::1]:4000"}) {
    EXPECT_EQ(address_towards(root), "") << root;
  }
}

}  // namespace
}  // namespace neuron::ccom
