// SPDX-License-Identifier: Apache-2.0
// What a waiting thread does, look by look.
#include "driver/base/backoff.h"

#include <gtest/gtest.h>

#include <chrono>

namespace neuron::base {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, SleepsOnlyAfterAllPausesAndYields) {
  Backoff backoff({.pauses = 2, .yields = 3, .first_sleep = 1ns, .longest_sleep = 1ns});
  for (int look = 0; look < 5; ++look) {
    EXPECT_FALSE(backoff.sleeps()) << look;
    backoff.wait();
  }
  EXPECT_TRUE(backoff.sleeps());
}

TEST(Backoff, BeginsAgainWhenSomethingHasChanged) {
  Backoff backoff({.pauses = 1, .yields = 0, .first_sleep = 1ns, .longest_sleep = 1ns});
  backoff.wait();
  EXPECT_TRUE(backoff.sleeps());
  backoff.reset();
  EXPECT_FALSE(backoff.sleeps());
}

TEST(Backoff, SleepsAtLeastTwiceAsLongEachTimeUpToTheLongest) {
  Backoff backoff({.pauses = 0, .yields = 0, .first_sleep = 1ms, .longest_sleep = 2ms});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) backoff.wait();  // 1, 2, 2
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 5ms);
}

TEST(Backoff, SleepsNoLongerThanItsCallerAllows) {
  Backoff backoff({.pauses = 0, .yields = 0, .first_sleep = 1h, .longest_sleep = 1h});
  const auto begin = std::chrono::steady_clock::now();
  backoff.wait(1ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30min);
}

}  // namespace
}  // namespace neuron::base
