// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/network_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "hw/address_map.h"
#include "hw/control.h"
#include "runtime/device/device_memory.h"
#include "tests/support/eventually.h"
#include "tests/unit/runtime/collectives/fake_ccom.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using std::chrono::milliseconds;
using test::FakeCcom;
using test::FakeMachine;
using test::Setting;

class Proxy : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_->run = [](const ccom_collective_t& c) {
      std::memcpy(c.output, c.input, c.count);
      return CCOM_SUCCESS;
    };
    auto world = World::join(*core_, 0, 1, nullptr, "10.0.0.1:99", milliseconds(5000));
    ASSERT_TRUE(world) << world.error().sentence;
    world_ = *world;
    auto opened = NetworkProxy::open(*core_, *world_);
    ASSERT_TRUE(opened) << opened.error().sentence;
    proxy_ = *opened;
  }

  const Setting emulator_{"NEURON_EMULATOR", nullptr};
  FakeCcom fake_;
  FakeMachine machine_;
  std::unique_ptr<Core> core_ = machine_.core(0);
  std::shared_ptr<World> world_;
  std::shared_ptr<NetworkProxy> proxy_;
};

TEST_F(Proxy, IsPolledWithoutPauseOnlyWhileAProgramIsExecuted) {
  std::this_thread::sleep_for(milliseconds(250));
  const int idle = fake_->polls;
  EXPECT_LT(idle, 20) << "ten looks a second";
  proxy_->begin();
  EXPECT_TRUE(test::eventually([&] { return fake_->polls > idle + 1000; }));
  proxy_->end();
}

TEST_F(Proxy, KeepsTheFailureOfTheNetwork) {
  EXPECT_TRUE(proxy_->check());
  fake_->last_error = "the connection to rank 1 broke";
  fake_->poll_result = CCOM_SYSTEM;
  proxy_->begin();
  EXPECT_TRUE(test::eventually([&] { return !proxy_->check(); }));
  EXPECT_EQ(proxy_->check().error().sentence, "the connection to rank 1 broke");
  fake_->poll_result = CCOM_SUCCESS;
  EXPECT_FALSE(proxy_->check());
  proxy_->end();
}

TEST_F(Proxy, MapsDeviceMemoryOfThisProcessAndNoOther) {
  auto memory = DeviceMemory::allocate(core_->device(), {.size = 8192});
  ASSERT_TRUE(memory) << memory.error().sentence;
  const ccom_device_host_t& host = fake_->host;
  auto* first = static_cast<std::byte*>(host.map(host.context, (*memory)->address(), 8192));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(host.map(host.context, (*memory)->address() + 100, 8092), first + 100);
  EXPECT_EQ(host.map(host.context, (*memory)->address() + 100, 8093), nullptr) << "beyond its end";
  const uint64_t address = (*memory)->address();
  memory->reset();
  EXPECT_EQ(host.map(host.context, address, 1), nullptr) << "after it was freed";
}

TEST_F(Proxy, SignalsACollectiveCoreWithOneCallThatEndsWithTheSemaphore) {
  const ccom_device_host_t& host = fake_->host;
  machine_.state.written.clear();
  const size_t before = machine_.state.count(NEURON_IOCTL_BAR_WRITE);
  ASSERT_TRUE(host.signal(host.context, 0, 3, 0x500000007));
  EXPECT_EQ(machine_.state.count(NEURON_IOCTL_BAR_WRITE) - before, 1u);
  ASSERT_EQ(machine_.state.written.size(), 3u);
  EXPECT_EQ(machine_.state.written[0].second, 7u);
  EXPECT_EQ(machine_.state.written[1].second, 5u);
  EXPECT_EQ(machine_.state.written[2].first,
            core_->place().cc_bar0(0) + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + 3 * 4);
  EXPECT_EQ(machine_.state.written[2].second, 1u);
}

TEST_F(Proxy, FailsWhereTheDeviceHasRefusedASignalThatWasPosted) {
  proxy_->begin();
  EXPECT_TRUE(proxy_->check());
  machine_.state.posted = -EIO;
  EXPECT_TRUE(test::eventually([&] { return !proxy_->check(); }));
  EXPECT_THAT(proxy_->check().error().sentence,
              testing::HasSubstr("the collective core of rank 0 cannot be told of a message"));
  proxy_->end();
}

TEST_F(Proxy, ClosesWhenItEnds) {
  EXPECT_EQ(fake_->proxies, 1);
  proxy_->begin();
  proxy_.reset();
  EXPECT_EQ(fake_->proxies, 0);
  const int polls = fake_->polls;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(fake_->polls, polls);
}

// A thread that is told to end while another proxy is opened must not go on, or whoever waits for
// its end waits for ever.
TEST_F(Proxy, OpensInOneThreadWhileTheLastOneClosesInAnother) {
  constexpr int kThreads = 4, kTimes = 5000;
  proxy_.reset();
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&] {
      for (int time = 0; time < kTimes; ++time) (void)NetworkProxy::open(*core_, *world_);
      ++ended;
    });
  }
  if (!test::eventually([&] { return ended == kThreads; })) {
    ADD_FAILURE() << "a thread that closes a proxy does not come back";
    std::quick_exit(1);  // it could not be joined
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_->proxies, 0);
}

}  // namespace
}  // namespace neuron::runtime
