// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_reset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeDevice;
using test::FakeMachine;
using test::FakeState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Refuses a reset until the result of the last one was fetched, as the driver does.
class StrictDevice final : public FakeDevice {
 public:
  StrictDevice(FakeState& state, int interruptions)
      : FakeDevice(state), state_(state), interruptions_(interruptions) {}
  int ioctl(unsigned long request, void* argument) override {
    const std::lock_guard lock(state_.calling);
    if (request == NEURON_IOCTL_NC_RESET && std::exchange(pending_, true)) return -EBUSY;
    if (request == NEURON_IOCTL_NC_RESET_READY) {
      if (interruptions_-- > 0) {
        static_cast<neuron_ioctl_device_ready*>(argument)->result = -EINTR;
        return 0;
      }
      pending_ = false;
    }
    return FakeDevice::ioctl(request, argument);
  }

 private:
  FakeState& state_;
  int interruptions_;
  bool pending_ = false;
};

class StrictPort final : public ndl::Port {
 public:
  StrictPort(FakeState& state, int interruptions) : state_(state), interruptions_(interruptions) {}
  int devices(int* indexes, int capacity) override {
    if (capacity > 0) indexes[0] = 0;
    return 1;
  }
  int open(int, int, std::unique_ptr<ndl::DevicePort>& device) override {
    device = std::make_unique<StrictDevice>(state_, interruptions_);
    return 0;
  }
  std::string name() const override { return "strict"; }

 private:
  FakeState& state_;
  const int interruptions_;
};

struct StrictMachine {
  explicit StrictMachine(int interruptions = 0) {
    ndl::set_port(std::make_unique<StrictPort>(state, interruptions));
    auto opened = Device::open(0);
    if (!opened) throw std::runtime_error(opened.error().sentence);
    device = std::move(*opened);
  }
  ~StrictMachine() {
    device.reset();
    ndl::release_port();
  }
  FakeState state;
  std::unique_ptr<Device> device;
};

TEST(CoreReset, OfCoresThatFailTogetherWaitsForItsTurn) {
  StrictMachine machine;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (uint32_t core = 0; core < 2; ++core) {
    threads.emplace_back([&, core] {
      for (int round = 0; round < kRounds; ++round) {
        if (!reset_cores(*machine.device, 1u << core)) ++failed;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(machine.state.resets.size(), 2u * kRounds);
}

TEST(CoreReset, FetchesItsResultAlsoWhenSignalsEndTheWait) {
  StrictMachine machine(3);
  EXPECT_TRUE(reset_cores(*machine.device, 1));
  EXPECT_TRUE(reset_cores(*machine.device, 2));
  EXPECT_THAT(machine.state.resets, ElementsAre(1u, 2u));
}

TEST(CoreReset, ThatFailsHasTheStatusThatWasAskedFor) {
  FakeMachine machine;
  machine.state.failing[NEURON_IOCTL_NC_RESET] = -EIO;
  const auto reset = reset_cores(*machine.device, 1, NRT_FAILURE);
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().status, NRT_FAILURE);
  EXPECT_THAT(reset.error().sentence, HasSubstr("asking for a reset"));
}

}  // namespace
}  // namespace neuron::runtime
