// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/notification_queue.h"

#include <gtest/gtest.h>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

class NotificationQueue : public testing::Test {
 protected:
  static constexpr uint64_t kRing = 0x40000;

  void reg(unsigned slot, unsigned offset, uint32_t value) {
    std::array<uint32_t, 1> word = {value};
    ASSERT_TRUE(
        block().write(NEURON_NQ_BASE(slot) + offset, std::as_bytes(std::span(word)), Access{}));
  }
  uint32_t reg(unsigned slot, unsigned offset) {
    std::array<uint32_t, 1> word = {};
    EXPECT_TRUE(block().read(NEURON_NQ_BASE(slot) + offset, std::as_writable_bytes(std::span(word)),
                             Access{}));
    return word[0];
  }
  void create(unsigned slot, uint32_t entries, uint64_t ring = kRing) {
    reg(slot, NEURON_NQ_ADDRESS_HI, static_cast<uint32_t>(ring >> 32));
    reg(slot, NEURON_NQ_ADDRESS_LO, static_cast<uint32_t>(ring));
    reg(slot, NEURON_NQ_SIZE, entries * NEURON_NOTIFICATION_BYTES);
  }
  neuron_notification entry(unsigned index, uint64_t ring = kRing) {
    neuron_notification out;
    std::memcpy(&out, m.memory(ring + index * sizeof out, sizeof out), sizeof out);
    return out;
  }
  bool post(unsigned slot, uint32_t pc) {
    Notification n;
    n.pc = pc;
    return block().post(slot, n);
  }
  // Entries with pc from `first` on; whether all were stored.
  bool post_several(unsigned slot, uint32_t first, uint32_t count) {
    std::vector<neuron_notification> entries;
    for (uint32_t n = 0; n < count; ++n) {
      Notification one;
      one.kind = NEURON_NK_TRACE;
      one.pc = first + n;
      one.debug = ~one.pc;
      one.time = uint64_t{one.pc} << 33;
      one.info = {one.pc + 1, one.pc + 2, one.pc + 3};
      entries.push_back(NotificationBlock::encode(one));
    }
    const NotificationBlock::Batch batch{slot, entries};
    return block().post({&batch, 1}) == 0;
  }
  static unsigned kind(const neuron_notification& n) { return n.word >> 1 & 15; }
  NotificationBlock& block() { return m.errors; }
  Machine m;
};

TEST_F(NotificationQueue, IsOffUntilBaseAndSizeAreSetAndAgainWhenEitherIsZero) {
  EXPECT_FALSE(post(0, 1));
  create(0, 4);
  EXPECT_TRUE(post(0, 1));
  reg(0, NEURON_NQ_ADDRESS_LO, 0);
  EXPECT_FALSE(post(0, 2));
  create(0, 4);
  reg(0, NEURON_NQ_SIZE, 0);
  EXPECT_FALSE(post(0, 2));
  EXPECT_EQ(entry(1).pc, 0u);
}

TEST_F(NotificationQueue, WritesEveryFieldWhereTheHeaderSays) {
  create(3, 4);
  Notification n;
  n.kind = NEURON_NK_TRACE;
  n.engine = 4;
  n.code = 0x5A;
  n.opcode = 0x301;
  n.time = 0x1122334455667788;
  n.pc = 7;
  n.debug = 8;
  n.info = {9, 10, 11};
  ASSERT_TRUE(block().post(3, n));
  const neuron_notification got = entry(0);
  EXPECT_EQ(got.time, n.time);
  EXPECT_EQ(got.pc, 7u);
  EXPECT_EQ(got.debug, 8u);
  EXPECT_EQ(got.info[2], 11u);
  EXPECT_EQ(got.word, 1u | 1u << 1 | 4u << 5 | 0x5Au << 9 | 0x301u << 17);
  EXPECT_EQ(reg(3, NEURON_NQ_TAIL), 1u);
}

TEST_F(NotificationQueue, TogglesThePhaseAtEachWrap) {
  create(0, 4);
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(post(0, i));
    reg(0, NEURON_NQ_HEAD, reg(0, NEURON_NQ_TAIL));
    EXPECT_EQ(entry(i % 4).pc, i);
    EXPECT_EQ(entry(i % 4).word & 1, i / 4 % 2 == 0 ? 1u : 0u) << i;
  }
}

TEST_F(NotificationQueue, DropsAndCountsWhenFullAndThenSaysHowMany) {
  create(0, 4);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(post(0, i));
  EXPECT_FALSE(post(0, 3));
  EXPECT_FALSE(post(0, 4));
  EXPECT_EQ(reg(0, NEURON_NQ_DROPPED), 2u);
  reg(0, NEURON_NQ_HEAD, 1);
  EXPECT_FALSE(post(0, 5));  // one place, and the overflow entry needs one too
  reg(0, NEURON_NQ_HEAD, 3);
  EXPECT_TRUE(post(0, 6));
  EXPECT_EQ(kind(entry(3)), static_cast<unsigned>(NEURON_NK_OVERFLOW));
  EXPECT_EQ(entry(3).info[0], 3u);
  EXPECT_EQ(entry(0).pc, 6u);
  reg(0, NEURON_NQ_DROPPED, 1);
  EXPECT_EQ(reg(0, NEURON_NQ_DROPPED), 0u);
}

TEST_F(NotificationQueue, KeepsTheLastErrorSlotForTheOverflowEntry) {
  create(NEURON_NQ_SLOT_ERROR, 4);
  for (uint32_t i = 0; i < 2; ++i) {
    block().post_error(NEURON_FAULT_BUS, Access{}, {i, 0, 0});
  }
  EXPECT_FALSE(block().overflowed());
  block().post_error(NEURON_FAULT_BUS, Access{}, {2, 0, 0});
  block().post_error(NEURON_FAULT_BUS, Access{}, {3, 0, 0});
  EXPECT_EQ(kind(entry(1)), static_cast<unsigned>(NEURON_NK_ERROR));
  EXPECT_EQ(kind(entry(2)), static_cast<unsigned>(NEURON_NK_OVERFLOW));
  EXPECT_TRUE(block().overflowed());
  EXPECT_EQ(block().errors(NEURON_FAULT_BUS), 4u);
  reg(NEURON_NQ_SLOT_ERROR, NEURON_NQ_HEAD, 3);
  EXPECT_TRUE(block().post_error(NEURON_FAULT_BUS, Access{}, {4, 0, 0}));
  EXPECT_EQ(entry(3).info[0], 4u);
}

TEST_F(NotificationQueue, OverwritesTheOldestInFreeRunningMode) {
  create(0, 4);
  reg(0, NEURON_NQ_MODE, 1);
  for (uint32_t i = 0; i < 9; ++i) EXPECT_TRUE(post(0, i));
  EXPECT_EQ(entry(0).pc, 8u);
  EXPECT_EQ(entry(1).pc, 5u);
}

TEST_F(NotificationQueue, LiesInHostMemoryToo) {
  m.host.add(0x9000, 4096);
  create(5, 128, NEURON_V2_HOST_BASE + 0x9000);
  EXPECT_TRUE(post(5, 77));
  EXPECT_EQ(entry(0, NEURON_V2_HOST_BASE + 0x9000).pc, 77u);
  m.host.remove(0x9000);
  EXPECT_FALSE(post(5, 78));
}

TEST_F(NotificationQueue, IgnoresRingsThatCannotHoldEntries) {
  create(0, 4, NEURON_V2_BAR0_DEVICE_BASE);
  EXPECT_FALSE(post(0, 1));
  create(0, 4, kRing + 2);
  EXPECT_FALSE(post(0, 1));
  reg(0, NEURON_NQ_SIZE, 100);
  EXPECT_FALSE(post(0, 1));
  reg(0, NEURON_NQ_SIZE, 32);
  EXPECT_FALSE(post(0, 1));
  create(0, 4);
  reg(0, NEURON_NQ_HEAD, 0xFFFFFFFF);
  EXPECT_EQ(reg(0, NEURON_NQ_HEAD), 3u);
}

TEST_F(NotificationQueue, TakesSeveralEntriesInTheirOrderAroundTheEndOfTheRing) {
  for (const uint64_t ring : {kRing, kRing + 4}) {  // words of 64 bits, and of 32
    create(0, 8, ring);
    uint32_t posted = 0;
    for (const uint32_t count : {5U, 4U, 7U, 1U, 6U}) {
      ASSERT_TRUE(post_several(0, posted, count));
      for (uint32_t n = posted; n < posted + count; ++n) {
        const neuron_notification got = entry(n % 8, ring);
        EXPECT_EQ(got.pc, n);
        EXPECT_EQ(got.debug, ~n);
        EXPECT_EQ(got.time, uint64_t{n} << 33);
        EXPECT_EQ(got.info[0], n + 1);
        EXPECT_EQ(got.info[1], n + 2);
        EXPECT_EQ(got.info[2], n + 3);
        EXPECT_EQ(got.word, (n / 8 % 2 == 0 ? 1U : 0U) | NEURON_NK_TRACE << 1 | 8U << 5);
      }
      posted += count;
      EXPECT_EQ(reg(0, NEURON_NQ_TAIL), posted % 8);
      reg(0, NEURON_NQ_HEAD, posted % 8);
    }
  }
}

TEST_F(NotificationQueue, OfSeveralEntriesDropsAndCountsThoseForWhichThereIsNoRoom) {
  create(0, 8);
  create(1, 8, kRing + 0x1000);
  EXPECT_FALSE(post_several(0, 0, 10));
  EXPECT_EQ(reg(0, NEURON_NQ_DROPPED), 3u);
  EXPECT_EQ(entry(6).pc, 6u);
  EXPECT_TRUE(post_several(1, 0, 7)) << "another ring has room";
  reg(0, NEURON_NQ_HEAD, 6);
  EXPECT_TRUE(post_several(0, 20, 3));
  EXPECT_EQ(kind(entry(7)), static_cast<unsigned>(NEURON_NK_OVERFLOW));
  EXPECT_EQ(entry(7).info[0], 3u);
  EXPECT_EQ(entry(0).pc, 20u);
  EXPECT_EQ(entry(2).pc, 22u);
  reg(0, NEURON_NQ_MODE, 1);
  EXPECT_TRUE(post_several(0, 30, 9)) << "the oldest are overwritten";
  EXPECT_EQ(entry(3).pc, 38u);
  reg(0, NEURON_NQ_SIZE, 0);
  EXPECT_FALSE(post_several(0, 40, 1));
}

TEST_F(NotificationQueue, SaysWhichOfSeveralSlotsLackEntries) {
  create(0, 4);
  create(2, 4, kRing + 0x1000);
  const std::vector<neuron_notification> entries(4);
  const std::array<NotificationBlock::Batch, 3> batches = {
      {{0, {entries.data(), 3}}, {1, {entries.data(), 1}}, {2, entries}}};
  EXPECT_EQ(block().post(batches), 1u << 1 | 1u << 2);
}

TEST_F(NotificationQueue, IsOffAfterReset) {
  create(0, 4);
  block().post_error(NEURON_FAULT_BUS, Access{}, {});
  block().reset();
  EXPECT_FALSE(post(0, 1));
  EXPECT_EQ(block().errors(), 0u);
  EXPECT_EQ(reg(0, NEURON_NQ_SIZE), 0u);
}

}  // namespace
}  // namespace neuron::chip
