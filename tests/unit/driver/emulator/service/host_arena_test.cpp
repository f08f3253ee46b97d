// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/host_arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace neuron::service {
namespace {

// The host answers a file that grows beyond the limit with a signal that ends the process.
TEST(HostArena, IsSmallerWhereFilesMayNotBeLarge) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{uint64_t{1} << 30, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  HostArena arena;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(arena.valid());
  EXPECT_EQ(arena.bytes(), uint64_t{1} << 30);
  nd_block* block = nullptr;
  std::byte* memory = arena.allocate(4096, &block);
  ASSERT_NE(memory, nullptr);
  memory[4095] = std::byte{1};
  arena.free(block);
}

}  // namespace
}  // namespace neuron::service
