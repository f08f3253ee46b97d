// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/stray_pages.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/eventually.h"

namespace neuron::service {
namespace {

TEST(StrayPages, AreLookedForAgainAndAgainUntilTheEnd) {
  std::atomic<int> looks{0};
  {
    StrayPages pages;
    pages.start([&] { ++looks; });
    pages.start([] { ADD_FAILURE() << "the first one is kept"; });
    EXPECT_TRUE(test::eventually([&] { return looks.load() >= 2; }));
    pages.stop();
    const int at_the_end = looks.load();
    base::sleep_for(std::chrono::milliseconds(500));
    EXPECT_EQ(looks.load(), at_the_end);
  }
}

}  // namespace
}  // namespace neuron::service
