// SPDX-License-Identifier: Apache-2.0
#include "driver/core/async_copy.h"

#include <gtest/gtest.h>

#include "uapi/neuron_ioctl.h"

namespace {

TEST(AsyncCopy, TheTwoNamesTakeTurns) {
  uint32_t name = 9;
  EXPECT_EQ(nd_async_next(NEURON_DMA_H2T_CTX_HANDLE_NONE, &name), 0);
  EXPECT_EQ(name, 1u);
  EXPECT_EQ(nd_async_next(1, &name), 0);
  EXPECT_EQ(name, 2u);
  EXPECT_EQ(nd_async_next(2, &name), 0);
  EXPECT_EQ(name, 1u);
  EXPECT_EQ(nd_async_next(NEURON_DMA_H2T_CTX_HANDLE_SYNC, &name), 0);
  EXPECT_EQ(name, 0u);
  EXPECT_EQ(nd_async_next(3, &name), -ND_EINVAL);
  EXPECT_EQ(nd_async_next(-2, &name), -ND_EINVAL);
}

TEST(AsyncCopy, ACopyHasAtMost2032PiecesOf64KiB) {
  EXPECT_EQ(nd_async_check_size(2032ull << 16), 0);
  EXPECT_EQ(nd_async_check_size((2032ull << 16) + 1), -ND_EINVAL);
}

TEST(AsyncCopy, OnlyWhatWasStartedCanBeWaitedForAndOnlyOnce) {
  nd_async_copies copies = {};
  EXPECT_EQ(nd_async_wait(&copies, 1), -ND_EINVAL);
  EXPECT_EQ(nd_async_check_started(&copies, 1), -ND_EINVAL);
  nd_async_start(&copies, 1, 5);
  EXPECT_EQ(nd_async_check_started(&copies, 1), 0);
  EXPECT_TRUE(nd_async_is_running(&copies, 1));
  EXPECT_EQ(nd_async_wait(&copies, 1), 0);
  EXPECT_EQ(nd_async_finish(&copies, 1), 5u);
  EXPECT_EQ(nd_async_wait(&copies, 1), -ND_EINVAL);
  for (uint32_t name : {0u, 3u, 77u}) EXPECT_EQ(nd_async_wait(&copies, name), -ND_EINVAL) << name;
  // Waiting for no earlier copy needs none.
  EXPECT_EQ(nd_async_check_started(&copies, NEURON_DMA_H2T_CTX_HANDLE_NONE), 0);
}

TEST(AsyncCopy, TheEndOfALaterCopyGivesBackTheDescriptorsOfTheEarlierOne) {
  nd_async_copies copies = {};
  nd_async_start(&copies, 1, 5);
  nd_async_start(&copies, 2, 7);
  EXPECT_EQ(nd_async_finish(&copies, 2), 12u);
  EXPECT_EQ(nd_async_finish(&copies, 1), 0u);
}

TEST(AsyncCopy, ARestartLosesWhatIsInFlightAndSaysSoOnce) {
  nd_async_copies copies = {};
  nd_async_start(&copies, 2, 5);
  nd_async_restart(&copies);
  EXPECT_FALSE(nd_async_is_running(&copies, 2));
  EXPECT_EQ(nd_async_check_started(&copies, 2), 0);
  EXPECT_EQ(nd_async_wait(&copies, 2), -ND_EIO);
  EXPECT_EQ(nd_async_wait(&copies, 2), -ND_EINVAL);
  // The name is free, and the count of descriptors begins anew.
  nd_async_start(&copies, 2, 3);
  EXPECT_EQ(nd_async_finish(&copies, 2), 3u);
}

TEST(AsyncCopy, ACopyThatWasGivenUpIsForgotten) {
  nd_async_copies copies = {};
  nd_async_start(&copies, 1, 2);
  nd_async_give_up(&copies, 1);
  EXPECT_FALSE(nd_async_is_running(&copies, 1));
  EXPECT_EQ(nd_async_wait(&copies, 1), -ND_EINVAL);
}

}  // namespace
