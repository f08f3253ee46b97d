// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/host_gate.h"

#include <gtest/gtest.h>

#include <thread>

#include "driver/base/abandonment.h"
#include "driver/emulator/chip/chip_faults.h"

namespace neuron::core {
namespace {

using Clock = std::chrono::steady_clock;

// A group whose one event lasts until it is told to end.
class LongEvent final : public GuardedCore {
 public:
  void apply(const Mail&, bool) override {}
  bool read_words(uint64_t, std::span<std::byte>) override { return true; }
  bool awaits_peers() const override { return false; }
  bool rests() const override { return false; }
  void pauses() override {}
  chip::RunResult run_events(Clock::time_point) override {
    begun = true;
    while (!ends) std::this_thread::yield();
    return chip::RunResult::kQuiescent;
  }

  std::atomic<bool> begun = false;
  std::atomic<bool> ends = false;
};

class HostGateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runner_ = std::thread([this] { gate_.run(Clock::now() + std::chrono::minutes(1), false); });
    while (!core_.begun) std::this_thread::yield();
  }
  void TearDown() override {
    core_.ends = true;
    runner_.join();
  }

  LongEvent core_;
  Scheduler scheduler_;
  HostGate gate_{core_, 0, scheduler_, chip::ChipFaults::none(), nullptr};
  std::thread runner_;
};

TEST_F(HostGateTest, AVisitForSomebodyWhoGoesAwayIsGivenUp) {
  std::atomic<bool> gone = false;
  std::atomic<bool> read = true;
  const auto start = Clock::now();
  std::thread visitor([&] {
    const base::Abandonment client(gone);
    std::byte word[4];
    read = gate_.read(0, word);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  gone = true;
  visitor.join();
  EXPECT_FALSE(read);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));  // of the 30 that it would wait
}

TEST_F(HostGateTest, AResetIsMadeAlsoForSomebodyWhoHasGone) {
  const std::atomic<bool> gone = true;
  std::atomic<bool> entered = false;
  std::thread visitor([&] {
    const base::Abandonment client(gone);
    entered = gate_.enter(HostGate::Visit::kInAnyCase);
    if (entered) gate_.leave();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  core_.ends = true;
  visitor.join();
  EXPECT_TRUE(entered);
}

TEST_F(HostGateTest, AVisitForSomebodyWhoStaysIsMadeAfterTheEvent) {
  std::atomic<bool> read = false;
  std::thread visitor([&] {
    std::byte word[4];
    read = gate_.read(0, word);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // several looks
  core_.ends = true;
  visitor.join();
  EXPECT_TRUE(read);
}

}  // namespace
}  // namespace neuron::core
