// SPDX-License-Identifier: Apache-2.0
// Copies of the host's driver that are executed when it has given them up: the process of the
// device was stopped, or its host had no processor for it.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

using testing::HasSubstr;

constexpr unsigned kQueue = 2;
constexpr uint64_t kLateTo = 0x100000;  // of the host
constexpr uint32_t kLateBytes = 0x1000;
constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kAborted = NEURON_UDMA_STATE_ABORT;

// Keeps the process from running when a packet is about to be moved.
class Sleeper final : public DmaListener {
 public:
  explicit Sleeper(uint32_t packet) : packet_(packet) {}
  void dma_rung(unsigned, unsigned, const Access&) override {}
  void dma_faulted(const DmaFault& fault, const Access&) override { faults.push_back(fault); }
  void dma_packet(unsigned, unsigned, uint32_t ahead, const Packet&) override {
    if (ahead == packet_) std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
  std::vector<DmaFault> faults;

 private:
  const uint32_t packet_;
};

class UdmaLate : public testing::Test {
 protected:
  UdmaLate() {
    writes.set_log([this](const std::string& sentence) { said.push_back(sentence); });
    m.bus.set_host_writes(&writes);
    memory = m.host.add(kLateTo, size_t{16} * kLateBytes);
    std::fill_n(memory, size_t{16} * kLateBytes, kFreed);
    m.fill(kFrom, size_t{16} * kLateBytes, 1);
    m.init(kQueue, 64);
  }
  // `count` copies to the host, which are collected into one if they are in order.
  void copy(uint32_t count, bool in_order) {
    for (uint32_t slot = 0; slot < count; ++slot) {
      const uint32_t at = in_order ? slot : slot ^ 1;
      m.copy(slot, kFrom + uint64_t{slot} * kLateBytes,
             NEURON_V2_HOST_BASE + kLateTo + uint64_t{at} * kLateBytes, kLateBytes);
    }
    m.ring(kQueue, count, count);
  }
  bool written(uint32_t at) const {
    return std::any_of(memory + size_t{at} * kLateBytes, memory + size_t{at + 1} * kLateBytes,
                       [](std::byte byte) { return byte != kFreed; });
  }
  uint32_t state(bool s2m) {
    return m.read(m.base() + (s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S) + NEURON_UDMA_STATE);
  }

  HostWrites writes;
  Machine m{33};
  std::byte* memory = nullptr;
  std::vector<std::string> said;
};

TEST_F(UdmaLate, NothingIsWrittenForACopyThatItsDriverHasGivenUp) {
  for (const bool in_order : {true, false}) {
    SCOPED_TRACE(in_order);
    std::fill_n(memory, size_t{16} * kLateBytes, kFreed);
    said.clear();
    Sleeper sleeper(4);
    m.engine.set_listener(&sleeper);
    m.bus.set_patience({.descriptor_ns = 1 * kMs, .answer_ns = 300 * kMs});
    m.init(kQueue, 64);
    copy(8, in_order);
    for (uint32_t at = 4; at < 8; ++at) EXPECT_FALSE(written(at)) << at;
    EXPECT_FALSE(written(2)) << "its packet was taken before, and was not copied yet";
    EXPECT_EQ(written(0), !in_order) << "what is collected is copied together";
    EXPECT_EQ(state(false), kAborted);
    EXPECT_EQ(state(true), kAborted);
    ASSERT_EQ(sleeper.faults.size(), 1u);
    EXPECT_EQ(sleeper.faults[0].code, NEURON_FAULT_DMA_ENGINE);
    EXPECT_THAT(sleeper.faults[0].describe(), HasSubstr("older than its driver waits"));
    // Who asks what was written last finds it, and so does whoever reads the log.
    const HostWrite last = writes.last(1).at(0);
    EXPECT_EQ(last.kind, HostWriteKind::kRefused);
    EXPECT_EQ(last.engine, 33);
    EXPECT_EQ(last.queue, kQueue);
    EXPECT_GT(last.waited_ns, 500 * kMs);
    EXPECT_THAT(last.describe(), HasSubstr("refused, too late, DMA engine 33 queue 2, S2M"));
    ASSERT_EQ(said.size(), 1u);
    EXPECT_THAT(said[0], HasSubstr("DMA engine 33 queue 2, S2M descriptor "));
    EXPECT_THAT(said[0], HasSubstr("waits for at most 308 ms"));
    // The driver sets the queue up anew, and copies.
    m.write(m.base() + NEURON_UDMA_M2S + NEURON_UDMA_CHANGE_STATE, 1);
    m.write(m.base() + NEURON_UDMA_S2M + NEURON_UDMA_CHANGE_STATE, 1);
    m.engine.set_listener(nullptr);
    m.init(kQueue, 64);
    copy(8, in_order);
    EXPECT_TRUE(written(7));
  }
}

TEST_F(UdmaLate, ACopyToTheDeviceIsRefusedAsWellAndSaid) {
  m.host.add(0x800000, kLateBytes);
  Sleeper sleeper(0);
  m.engine.set_listener(&sleeper);
  m.bus.set_patience({.descriptor_ns = 100 * kMs});
  m.copy(0, NEURON_V2_HOST_BASE + 0x800000, 0x2000000, kLateBytes);
  std::fill_n(m.memory(0x2000000, kLateBytes), kLateBytes, kFreed);
  m.ring(kQueue, 1, 1);
  EXPECT_EQ(*m.memory(0x2000000), kFreed);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("0x2000000 of the device"));
  EXPECT_TRUE(writes.last().empty()) << "these are writes into the host's memory";
}

TEST_F(UdmaLate, ACopyWhoseDriverStillWaitsIsMadeHoweverLateItIs) {
  Sleeper sleeper(4);
  m.engine.set_listener(&sleeper);
  m.bus.set_patience({.descriptor_ns = 10'000 * kMs, .answer_ns = 0});
  copy(8, true);
  EXPECT_TRUE(written(7));
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(state(true), NEURON_UDMA_STATE_NORMAL);
}

TEST_F(UdmaLate, WhereNoDriverGivesUpNothingIsTooLate) {
  Sleeper sleeper(4);
  m.engine.set_listener(&sleeper);
  copy(8, true);
  EXPECT_TRUE(written(7));
  EXPECT_TRUE(said.empty());
}

TEST_F(UdmaLate, AQueueThatWasHeldUpCountsFromWhenItWasLetGo) {
  m.engine.set_listener(nullptr);
  m.bus.set_patience({.descriptor_ns = 50 * kMs});
  m.set(kQueue, true, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
  copy(8, true);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(written(0));
  m.set(kQueue, true, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
  EXPECT_TRUE(written(7));
}

TEST(DriverPatience, IsThatOfTheFirstDriverThatGivesUp) {
  const DriverPatience patience{
      .descriptor_ns = 40, .answer_ns = 5000, .answered_at_the_end = 1024};
  EXPECT_EQ(patience.limit_ns(1), 5040u) << "it does not count while it waits for the answer";
  EXPECT_EQ(patience.limit_ns(1024), 45'960u);
  EXPECT_EQ(patience.limit_ns(1025), 41'000u) << "it counts from the doorbell on";
  EXPECT_EQ(DriverPatience{}.limit_ns(8), 0u);
}

}  // namespace
}  // namespace neuron::chip
