// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/packets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::profile {
namespace {

constexpr uint8_t kEngine = 3, kQueue = 1;

std::vector<uint32_t> bytes_of(const std::vector<Packet>& packets) {
  std::vector<uint32_t> bytes;
  for (const Packet& packet : packets) bytes.push_back(packet.bytes);
  return bytes;
}

class PacketsOfTransfers : public ::testing::Test {
 protected:
  PacketsOfTransfers() {
    for (const uint32_t bytes : {1000u, 3000u, 4u, 500u, 4u}) {
      program_.packets[uint32_t{kQueue} << 8 | kEngine].push_back({.bytes = bytes});
    }
  }
  static TransferEvent transfer(uint8_t descriptors, uint64_t bytes, uint8_t queue = kQueue) {
    return {.begin = 10'000,
            .end = 50'000,
            .bytes = bytes,
            .dma_engine = kEngine,
            .queue = queue,
            .descriptors = descriptors};
  }
  Program program_;
  Packets packets_{program_};
};

TEST_F(PacketsOfTransfers, AreThoseOfTheRingInItsOrderWithTheWordThatTellsTheEnd) {
  EXPECT_THAT(bytes_of(packets_.of(transfer(1, 1000), 0, false)), ::testing::ElementsAre(1000));
  EXPECT_THAT(bytes_of(packets_.of(transfer(1, 3004), 0, true)), ::testing::ElementsAre(3000, 4));
  EXPECT_THAT(bytes_of(packets_.of(transfer(1, 504), 0, true)), ::testing::ElementsAre(500, 4));
  EXPECT_THAT(bytes_of(packets_.of(transfer(2, 4000), 0, false)),
              ::testing::ElementsAre(1000, 3000))
      << "the ring begins again";
}

TEST_F(PacketsOfTransfers, FollowEachOtherForAsLongAsTheirBytesTake) {
  const auto& list = packets_.of(transfer(2, 4000), 0, false);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].begin, 10'000u);
  EXPECT_EQ(list[0].end, list[1].begin);
  EXPECT_EQ(list[1].end, 50'000u);
  // The shorter one counts as many bytes as pass while an engine takes a descriptor: 82 ns at 17
  // bytes a nanosecond.
  EXPECT_NEAR(static_cast<double>(list[0].end - list[0].begin), 40'000 * 1394.0 / 4394, 20);
}

TEST_F(PacketsOfTransfers, AreNotKnownFromWhereTheyDoNotFitOn) {
  EXPECT_TRUE(packets_.of(transfer(1, 999), 0, false).empty());
  EXPECT_TRUE(packets_.of(transfer(1, 1000), 0, false).empty());
}

TEST_F(PacketsOfTransfers, AreNotKnownBehindLostEvents) {
  packets_.lost();
  EXPECT_TRUE(packets_.of(transfer(1, 1000), 0, false).empty());
}

TEST_F(PacketsOfTransfers, OfAnInstructionAreItsRows) {
  constexpr uint8_t kOther = 2;
  EXPECT_THAT(bytes_of(packets_.of(transfer(3, 1504, kOther), 500, true)),
              ::testing::ElementsAre(500, 500, 500, 4));
  EXPECT_THAT(bytes_of(packets_.of(transfer(1, 777, kOther), 0, false)),
              ::testing::ElementsAre(777));
  EXPECT_TRUE(packets_.of(transfer(3, 1504, kOther), 400, true).empty()) << "rows of other sizes";
  EXPECT_TRUE(packets_.of(transfer(3, 1500, kOther), 0, false).empty()) << "no rows are known";
}

}  // namespace
}  // namespace neuron::profile
