// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/completion.h"

#include <gtest/gtest.h>

#include <thread>

namespace neuron::runtime {
namespace {

TEST(CompletionHub, WaiterSeesCountsFromBeforeAndDuringItsWait) {
  CompletionHub hub;
  CompletionCounter counter;
  hub.add(counter);
  EXPECT_TRUE(hub.wait(counter, 1, base::Deadline::after(std::chrono::seconds(0))));
  EXPECT_FALSE(hub.wait(counter, 2, base::Deadline::after(std::chrono::milliseconds(2))));
  std::thread waiter(
      [&] { EXPECT_TRUE(hub.wait(counter, 3, base::Deadline::after(std::chrono::seconds(20)))); });
  hub.add(counter);
  hub.add(counter);
  waiter.join();
}

TEST(CompletionHub, CountsSeveralExecutionsAtATimeAndFromZeroAgain) {
  CompletionHub hub;
  CompletionCounter counter;
  hub.add(counter, 5);
  EXPECT_EQ(counter.value(), 5u);
  const auto now = base::Deadline::after(std::chrono::seconds(0));
  EXPECT_TRUE(hub.wait(counter, 5, now));
  EXPECT_FALSE(hub.wait(counter, 6, now));
  counter.reset();
  EXPECT_EQ(counter.value(), 0u);
  EXPECT_TRUE(hub.wait(counter, 0, now));
}

}  // namespace
}  // namespace neuron::runtime
