// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/settled.h"

#include <gtest/gtest.h>

namespace neuron::telemetry {
namespace {

using Clock = std::chrono::steady_clock;

// Two devices; the second one is in a reset for some looks.
class Script final : public Source {
 public:
  explicit Script(int resetting) : resetting_(resetting) {}
  Snapshot take(const Wanted&, std::chrono::milliseconds) override {
    Snapshot snapshot;
    snapshot.devices.resize(2);
    snapshot.devices[1].index = 1;
    snapshot.devices[0].state = DeviceState::kReady;
    snapshot.devices[1].state =
        looks++ < resetting_ ? DeviceState::kResetting : DeviceState::kReady;
    return snapshot;
  }
  int looks = 0;

 private:
  const int resetting_;
};

Snapshot settled(Script& script, const std::vector<int>& devices, std::chrono::milliseconds time) {
  return take_settled(script, {}, std::chrono::milliseconds(1), devices, Clock::now() + time);
}

TEST(Settled, ADeviceInAResetIsLookedAtUntilItIsReady) {
  Script script(2);
  const Snapshot snapshot = settled(script, {}, std::chrono::minutes(10));
  EXPECT_EQ(snapshot.devices[1].state, DeviceState::kReady);
  EXPECT_EQ(script.looks, 3);
}

TEST(Settled, AResetThatDoesNotEndIsToldAtTheDeadline) {
  Script script(1000000);
  const Snapshot snapshot = settled(script, {1}, std::chrono::milliseconds(30));
  EXPECT_EQ(snapshot.devices[1].state, DeviceState::kResetting);
  EXPECT_GT(script.looks, 1);
}

TEST(Settled, DevicesThatNobodyAskedForAreNotWaitedFor) {
  Script script(1000000);
  settled(script, {0}, std::chrono::minutes(10));
  EXPECT_EQ(script.looks, 1);
}

}  // namespace
}  // namespace neuron::telemetry
