// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/scratchpad.h"

#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;

constexpr uint64_t kStep = 64ull << 20;

struct User : ScratchpadUser {
  void move_scratchpad(uint64_t where) override {
    address = where;
    ++moves;
  }
  uint64_t address = 0;
  int moves = 0;
};

TEST(Scratchpad, GrowsInStepsAndTellsEveryUserTheNewAddress) {
  FakeMachine machine;
  const auto core = machine.core();
  User small, step, large;
  ASSERT_TRUE(core->scratchpad.join(*core, small, 1));
  EXPECT_EQ(core->scratchpad.size(), kStep);
  ASSERT_TRUE(core->scratchpad.join(*core, step, kStep));
  EXPECT_EQ(core->scratchpad.size(), kStep) << "what is there is enough";
  EXPECT_EQ(small.moves, 1) << "nothing has moved";
  EXPECT_EQ(step.moves, 1);
  EXPECT_EQ(step.address, small.address);
  const uint64_t before = small.address;
  ASSERT_TRUE(core->scratchpad.join(*core, large, kStep + 1));
  EXPECT_EQ(core->scratchpad.size(), 2 * kStep);
  EXPECT_NE(large.address, before);
  EXPECT_EQ(small.address, large.address);
  EXPECT_EQ(small.moves, 2);
  for (User* user : {&small, &step, &large}) core->scratchpad.leave(*user);
}

TEST(Scratchpad, GoesWithItsLastUser) {
  FakeMachine machine;
  const auto core = machine.core();
  User first, second;
  ASSERT_TRUE(core->scratchpad.join(*core, first, 1));
  ASSERT_TRUE(core->scratchpad.join(*core, second, 1));
  core->scratchpad.leave(first);
  EXPECT_EQ(core->scratchpad.size(), kStep);
  core->scratchpad.leave(second);
  EXPECT_EQ(core->scratchpad.size(), 0u);
}

TEST(Scratchpad, HaltsTheCoreWhenItMovesUnderAResidentModel) {
  FakeMachine machine;
  const auto core = machine.core();
  User first, second;
  ASSERT_TRUE(core->scratchpad.join(*core, first, 1));
  core->current_model = &first;
  machine.state.written.clear();
  ASSERT_TRUE(core->scratchpad.join(*core, second, 1));
  EXPECT_EQ(core->current_model, &first) << "nothing has moved";
  ASSERT_TRUE(core->scratchpad.join(*core, second, kStep + 1));
  EXPECT_EQ(core->current_model, nullptr);
  EXPECT_EQ(machine.state.written.size(), 1u);
  core->scratchpad.leave(first);
  core->scratchpad.leave(second);
}

TEST(Scratchpad, ThatCannotGrowStaysAsItWas) {
  FakeMachine machine;
  const auto core = machine.core();
  User first, second;
  ASSERT_TRUE(core->scratchpad.join(*core, first, 1));
  machine.state.failing[NEURON_IOCTL_MEM_ALLOC_V2MT64] = -ENOMEM;
  EXPECT_FALSE(core->scratchpad.join(*core, second, kStep + 1));
  EXPECT_EQ(core->scratchpad.size(), kStep);
  EXPECT_EQ(first.moves, 1);
  EXPECT_EQ(second.moves, 0);
  core->scratchpad.leave(first);
}

}  // namespace
}  // namespace neuron::runtime
