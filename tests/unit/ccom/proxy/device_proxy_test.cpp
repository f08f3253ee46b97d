// SPDX-License-Identifier: Apache-2.0
#include "ccom/proxy/device_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <thread>

#include "ccom/transport/fabric_provider.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLatency_ps = 15'000'000;
constexpr double kRate = 1e9;  // a byte a nanosecond

// A device of one rank: its memory, what it calls due, and what it is told.
struct Device {
  std::vector<std::byte> memory = std::vector<std::byte>(8u << 20);
  std::deque<std::pair<uint32_t, uint64_t>> due;      // number, time
  std::map<uint32_t, std::vector<uint64_t>> signals;  // times, by semaphore
  bool alive = true;

  size_t told() const {
    size_t all = 0;
    for (const auto& [semaphore, times] : signals) all += times.size();
    return all;
  }

  ccom_device_host_t host() {
    return {.size_of = sizeof(ccom_device_host_t),
            .context = this,
            .map = [](void* self, uint64_t address, uint64_t bytes) -> void* {
              auto& all = static_cast<Device*>(self)->memory;
              return address + bytes <= all.size() ? all.data() + address : nullptr;
            },
            .due =
                [](void* self, uint32_t, uint32_t* number, uint64_t* time) {
                  auto& queue = static_cast<Device*>(self)->due;
                  if (queue.empty()) return false;
                  std::tie(*number, *time) = queue.front();
                  queue.pop_front();
                  return true;
                },
            .signal =
                [](void* self, uint32_t, uint32_t semaphore, uint64_t time) {
                  static_cast<Device*>(self)->signals[semaphore].push_back(time);
                  return static_cast<Device*>(self)->alive;
                }};
  }
};

// Two ranks of two instances in one thread, over an unreliable order of packets.
class TwoInstances : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::unique_ptr<FabricEndpoint>> endpoints;
    std::vector<std::vector<std::byte>> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      auto endpoint = open_provider("rough+tcp;ofi_rxm", "127.0.0.1");
      ASSERT_TRUE(endpoint) << endpoint.error().sentence;
      addresses.push_back((*endpoint)->address());
      endpoints.push_back(std::move(*endpoint));
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      auto port = NetworkPort::open(rank, std::move(endpoints[rank]), addresses,
                                    std::vector<PortKey>(addresses.size()));
      ASSERT_TRUE(port) << port.error().sentence;
      proxies_[rank] = std::make_unique<DeviceProxy>(std::move(*port), devices_[rank].host(),
                                                     [this] { return usable_; });
    }
  }

  Result<void> add(Rank rank, const std::vector<ccom_device_message_t>& messages) {
    ccom_device_program_t program{};
    program.messages = messages.data();
    program.message_count = static_cast<uint32_t>(messages.size());
    program.nic_latency_ps = kLatency_ps;
    program.nic_bytes_per_second = kRate;
    return proxies_[rank]->add(0, program);
  }

  // Polls both until each device has been told of `messages` in all. Empty: nothing failed.
  std::string settle(size_t messages) {
    const base::Deadline end = base::Deadline::after(std::chrono::seconds(60));
    while (devices_[0].told() < messages || devices_[1].told() < messages) {
      for (const auto& proxy : proxies_) {
        if (const auto moved = proxy->poll(); !moved) return moved.error().sentence;
      }
      if (end.expired()) return "messages are still under way after 60 s";
    }
    return "";
  }

  bool usable_ = true;
  std::array<Device, 2> devices_;
  std::array<std::unique_ptr<DeviceProxy>, 2> proxies_;
};

ccom_device_message_t send_of(uint64_t address, uint64_t bytes, uint16_t semaphore) {
  return {.sends = 1, .peer = 1, .semaphore = semaphore, .address = address, .bytes = bytes};
}
ccom_device_message_t receive_of(uint64_t address, uint64_t bytes, uint16_t semaphore) {
  return {.sends = 0, .peer = 0, .semaphore = semaphore, .address = address, .bytes = bytes};
}

TEST_F(TwoInstances, GiveTheReceiverTheTimeOfTheNicAndTheSenderThatOfItsLastByte) {
  ASSERT_TRUE(add(0, {send_of(0, 1000, 16), send_of(1000, 20000, 17)}));
  ASSERT_TRUE(add(1, {receive_of(0, 1000, 32), receive_of(1000, 20000, 33)}));
  devices_[0].due = {{0, 5'000'000}, {1, 5'100'000}};
  devices_[1].due = {{0, 0}, {1, 90'000'000}};  // the second place becomes free late
  ASSERT_EQ(settle(2), "");
  using Times = std::map<uint32_t, std::vector<uint64_t>>;
  // 1000 bytes take 1 us of the NIC, for which the second message waits.
  EXPECT_EQ(devices_[0].signals, (Times{{16, {6'000'000}}, {17, {26'000'000}}}));
  EXPECT_EQ(devices_[1].signals, (Times{{32, {21'000'000}}, {33, {90'000'000}}}));
}

TEST_F(TwoInstances, CarryRandomProgramsPassAfterPassWhateverTheNetworkDoes) {
  constexpr uint32_t kOfCollective = 20;
  std::mt19937 random(7);
  std::vector<ccom_device_message_t> sends, receives;
  std::array<uint64_t, 2> next = {};
  for (int i = 0; i < 60; ++i) {
    // Both ranks send; a message's place on the other side has the same number.
    const uint64_t bytes = i % 7 == 0 ? 0 : 1 + random() % (i % 3 == 0 ? 100'000 : 9'000);
    const auto channel = static_cast<uint16_t>(random() % 3);
    const auto collective = static_cast<uint32_t>(i) / kOfCollective;
    const bool forth = random() % 2 == 0;
    sends.push_back(
        {forth ? 1u : 0u, 1, collective, channel, static_cast<uint16_t>(i), next[0], bytes});
    receives.push_back(
        {forth ? 0u : 1u, 0, collective, channel, static_cast<uint16_t>(i), next[1], bytes});
    next[0] += bytes;
    next[1] += bytes;
  }
  ASSERT_TRUE(add(0, sends));
  ASSERT_TRUE(add(1, receives));
  for (uint64_t pass = 1; pass <= 3; ++pass) {
    for (auto& device : devices_) {
      for (std::byte& byte : device.memory) byte = static_cast<std::byte>(random());
    }
    const auto wanted = [&](size_t i) {
      const ccom_device_message_t& from = sends[i].sends != 0 ? sends[i] : receives[i];
      const auto& memory = devices_[sends[i].sends != 0 ? 0 : 1].memory;
      const auto at = memory.begin() + static_cast<ptrdiff_t>(from.address);
      return std::vector<std::byte>(at, at + static_cast<ptrdiff_t>(from.bytes));
    };
    std::vector<std::vector<std::byte>> bytes;
    for (size_t i = 0; i < sends.size(); ++i) bytes.push_back(wanted(i));
    // A core ends a collective before it begins the next. What is due comes in pieces, one rank
    // ahead of the other.
    for (uint32_t first = 0; first < sends.size(); first += kOfCollective) {
      for (uint32_t number = first; number < first + kOfCollective; ++number) {
        devices_[pass % 2].due.emplace_back(number, number);
        if (number % 5 != 4) continue;
        for (const auto& proxy : proxies_) ASSERT_TRUE(proxy->poll());
      }
      for (uint32_t number = first; number < first + kOfCollective; ++number) {
        devices_[1 - pass % 2].due.emplace_back(number, number);
      }
      ASSERT_EQ(settle((pass - 1) * sends.size() + first + kOfCollective), "");
    }
    for (size_t i = 0; i < sends.size(); ++i) {
      const ccom_device_message_t& to = sends[i].sends != 0 ? receives[i] : sends[i];
      const auto& memory = devices_[sends[i].sends != 0 ? 1 : 0].memory;
      ASSERT_TRUE(std::equal(bytes[i].begin(), bytes[i].end(),
                             memory.begin() + static_cast<ptrdiff_t>(to.address)))
          << "message " << i << " of pass " << pass;
      for (const Device& device : devices_) {
        EXPECT_EQ(device.signals.at(static_cast<uint32_t>(i)).size(), pass);
      }
    }
  }
}

// As a rank of broadcast that only sends, whose model is unloaded before the others have come.
TEST_F(TwoInstances, BringTheLastMessagesOfAProxyThatEndsToAPeerThatComesLate) {
  ASSERT_TRUE(add(0, {send_of(0, 1000, 16)}));
  ASSERT_TRUE(add(1, {receive_of(0, 1000, 32)}));
  devices_[0].due = {{0, 5}};
  const base::Deadline end = base::Deadline::after(std::chrono::seconds(60));
  while (devices_[0].told() == 0 && !end.expired()) ASSERT_TRUE(proxies_[0]->poll());
  ASSERT_EQ(devices_[0].told(), 1u) << "for its core it has been sent";
  std::thread closer([&] { proxies_[0].reset(); });
  base::sleep_for(std::chrono::milliseconds(600));
  devices_[1].due = {{0, 0}};
  const base::Deadline patience = base::Deadline::after(std::chrono::seconds(10));
  while (devices_[1].told() == 0 && !patience.expired() && proxies_[1]->poll()) {
  }
  closer.join();
  EXPECT_EQ(devices_[1].told(), 1u) << "the message was lost";
}

TEST_F(TwoInstances, EndAtOnceWhenTheJobIsNotUsableAnyMore) {
  usable_ = false;
  ASSERT_TRUE(add(0, {send_of(0, 1000, 16)}));
  devices_[0].due = {{0, 5}};
  const base::Deadline end = base::Deadline::after(std::chrono::seconds(60));
  while (devices_[0].told() == 0 && !end.expired()) ASSERT_TRUE(proxies_[0]->poll());
  const auto begin = std::chrono::steady_clock::now();
  proxies_[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

TEST_F(TwoInstances, SayThatNotificationsWereLost) {
  ASSERT_TRUE(add(0, {send_of(0, 8, 16), send_of(8, 8, 17)}));
  devices_[0].due = {{1, 0}};
  const auto polled = proxies_[0]->poll();
  ASSERT_FALSE(polled);
  EXPECT_THAT(polled.error().sentence, HasSubstr("calls message 1 due where 0 of 2 is next"));
  EXPECT_EQ(proxies_[0]->poll().error().sentence, polled.error().sentence) << "and stay with it";
}

TEST_F(TwoInstances, SayThatACoreCannotBeTold) {
  ASSERT_TRUE(add(0, {send_of(0, 8, 16)}));
  devices_[0].due = {{0, 0}};
  devices_[0].alive = false;
  EXPECT_THAT(settle(1), HasSubstr("cannot be told that 8 bytes have been sent"));
}

TEST_F(TwoInstances, RefuseWhatCannotBeMappedAndRanksThatThereAreNot) {
  const auto unmapped = add(0, {send_of(8u << 20, 8, 16)});
  ASSERT_FALSE(unmapped);
  EXPECT_EQ(unmapped.error().status, CCOM_UNSUPPORTED);
  EXPECT_THAT(unmapped.error().sentence,
              HasSubstr("8 bytes of device memory at 0x800000, which a rank of another instance"));
  ccom_device_message_t elsewhere = send_of(0, 8, 16);
  elsewhere.peer = 2;
  EXPECT_THAT(add(0, {elsewhere}).error().sentence, HasSubstr("a message for rank 2 on channel 0"));
}

}  // namespace
}  // namespace neuron::ccom
