// SPDX-License-Identifier: Apache-2.0
// The record of a launch, on a machine that executes nothing: so each launch ends by its limit.
#include "runtime/device/core_launch.h"

#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

TEST(CoreLaunch, TakesTheTimeBetweenItsBeginAndItsEnd) {
  EXPECT_EQ((CoreLaunch::Times{.begin_ns = 5, .end_ns = 12}.taken()), 7u);
}

TEST(CoreLaunch, AsksForOtherRingsIfThereAreAnyAndTheCoreHasNotTheirs) {
  test::FakeMachine machine;
  const auto core = machine.core(1);
  const int own = 0, other = 0;
  const auto record_of = [&](const void* binding, uint32_t entries) {
    const LaunchOrder order{
        .binding = binding, .binding_number = 7, .ring_table = 0x4000, .ring_entries = entries};
    CoreLaunch launch(*core, order, nullptr);
    CoreLaunch::run(launch, nullptr, 0);
    EXPECT_TRUE(launch.failed);
    EXPECT_EQ(core->launch().binding, 7u);
    EXPECT_EQ(core->launch().ring_table, 0x4000u);
    return std::pair<uint32_t, uint32_t>(core->launch().flags, core->launch().ring_entries);
  };
  const std::pair<uint32_t, uint32_t> none{0, 0};
  EXPECT_EQ(record_of(&own, 0), none) << "no rings";
  EXPECT_EQ(record_of(&own, 1), std::pair(uint32_t{NEURON_LAUNCH_REBIND}, 1u));
  core->current_binding = &other;
  EXPECT_EQ(record_of(&other, 5), none) << "the core has them";
  EXPECT_EQ(record_of(&own, 5), std::pair(uint32_t{NEURON_LAUNCH_REBIND}, 5u));
}

}  // namespace
}  // namespace neuron::runtime
