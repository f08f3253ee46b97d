// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/last_error.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace neuron::runtime {
namespace {

TEST(LastError, BelongsToItsThreadAndIsCut) {
  set_last_error("mine");
  std::thread([] {
    EXPECT_STREQ(last_error(), "");
    set_last_error(std::string(10'000, 'x'));
    EXPECT_EQ(std::string(last_error()).size(), 4095u);
  }).join();
  EXPECT_STREQ(last_error(), "mine");
}

}  // namespace
}  // namespace neuron::runtime
