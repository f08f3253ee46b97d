// SPDX-License-Identifier: Apache-2.0
// Packets of clients: whatever does not agree with itself is no message.
#include "driver/emulator/transport/shared/shared_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "uapi/neuron_ioctl.h"

namespace neuron::transport {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::vector<std::byte> packet(T message, size_t behind = 0) {
  std::vector<std::byte> bytes(sizeof(T) + behind);
  std::memcpy(bytes.data(), &message, sizeof(T));
  return bytes;
}

std::vector<std::byte> ioctl_packet(uint32_t argument, uint64_t data, size_t behind,
                                    uint16_t flags = 0) {
  auto message = wire::message<wire::IoctlRequest>(wire::Kind::kIoctl, 7, flags, behind);
  message.request = NEURON_IOCTL_MEM_FREE;
  message.argument_bytes = argument;
  message.data_bytes = data;
  return packet(message, behind);
}

TEST(SharedMessage, ACompleteCallIsTakenApart) {
  std::string why;
  const auto bytes = ioctl_packet(8, 4, 12);
  const auto request = parse_request(bytes, why);
  ASSERT_TRUE(request) << why;
  EXPECT_EQ(request->kind, wire::Kind::kIoctl);
  EXPECT_EQ(request->id, 7u);
  EXPECT_EQ(request->argument.size(), 8u);
  EXPECT_EQ(request->data.size(), 4u);
}

TEST(SharedMessage, LengthsThatDoNotAgreeAreRefused) {
  std::string why;
  EXPECT_FALSE(parse_request(ioctl_packet(13, 0, 12), why));
  EXPECT_FALSE(parse_request(ioctl_packet(8, 5, 12), why));
  EXPECT_FALSE(parse_request(ioctl_packet(8, 3, 12), why));
  EXPECT_FALSE(parse_request(ioctl_packet(~0u, ~0ull, 12), why));
  EXPECT_FALSE(parse_request(ioctl_packet(8, 4, 12, wire::kFlagDataInFile), why));
  EXPECT_FALSE(parse_request(ioctl_packet(12, wire::kMaxData + 1, 12, wire::kFlagDataInFile), why));
  EXPECT_TRUE(parse_request(ioctl_packet(12, wire::kMaxData, 12, wire::kFlagDataInFile), why));
  EXPECT_THAT(why, HasSubstr("do not agree"));
}

TEST(SharedMessage, EveryTruncationOfEveryKindIsRefused) {
  const std::vector<std::vector<std::byte>> packets = {
      packet(wire::message<wire::Hello>(wire::Kind::kHello, 1)),
      packet(wire::message<wire::IoctlRequest>(wire::Kind::kIoctl, 1)),
      packet(wire::message<wire::MapRequest>(wire::Kind::kMap, 1)),
      packet(wire::message<wire::ResolveRequest>(wire::Kind::kResolve, 1)),
      packet(wire::message<wire::RegisterRequest>(wire::Kind::kRegister, 1)),
      packet(wire::message<wire::WaitRequest>(wire::Kind::kWait, 1)),
      packet(wire::message<wire::DescribeRequest>(wire::Kind::kDescribe, 1)),
      packet(wire::message<wire::Header>(wire::Kind::kGoodbye, 1))};
  std::string why;
  for (const auto& whole : packets) {
    EXPECT_TRUE(parse_request(whole, why)) << why;
    for (size_t length = 0; length < whole.size(); ++length) {
      std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(length));
      EXPECT_FALSE(parse_request(cut, why));
      // Also when it says itself that it is that short.
      if (length < sizeof(wire::Header)) continue;
      const auto size = static_cast<uint32_t>(length);
      std::memcpy(cut.data() + offsetof(wire::Header, size), &size, sizeof(size));
      EXPECT_FALSE(parse_request(cut, why));
    }
  }
}

TEST(SharedMessage, LaterVersionsMaySendLongerStructs) {
  auto message = wire::message<wire::MapRequest>(wire::Kind::kMap, 1, 0, 24);
  message.length = 4096;
  std::string why;
  const auto bytes = packet(message, 24);
  const auto request = parse_request(bytes, why);
  ASSERT_TRUE(request) << why;
  EXPECT_EQ(request->map.length, 4096u);
}

TEST(SharedMessage, UnknownKindsAndForeignPacketsAreNamed) {
  std::string why;
  EXPECT_FALSE(
      parse_request(packet(wire::message<wire::Header>(static_cast<wire::Kind>(900), 1)), why));
  EXPECT_THAT(why, HasSubstr("kind 900"));
  auto foreign = wire::message<wire::Header>(wire::Kind::kGoodbye, 1);
  foreign.magic = 1;
  EXPECT_FALSE(parse_request(packet(foreign), why));
  EXPECT_THAT(why, HasSubstr("no message of a shared device"));
}

}  // namespace
}  // namespace neuron::transport
