// SPDX-License-Identifier: Apache-2.0
#include "driver/core/ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "driver/core/queue.h"
#include "hw/address_map.h"
#include "hw/udma.h"

namespace {

struct Ring {
  explicit Ring(uint32_t length) : source(length), destination(length) {
    error = nd_ring_init(&ring, source.data(), destination.data(), length);
  }
  std::vector<nd_descriptor> source;
  std::vector<nd_descriptor> destination;
  nd_ring ring{};
  int error = 0;
};

TEST(Ring, LengthsThatAnEngineDoesNotTakeAreRefused) {
  for (uint32_t length : {0u, 16u, 31u, 33u, 40u, 1u << 24}) {
    EXPECT_EQ(nd_queue_check_length(length), -ND_EINVAL) << length;
  }
  for (uint32_t length : {32u, 48u, 8192u, (1u << 24) - 16}) {
    EXPECT_EQ(nd_queue_check_length(length), 0) << length;
  }
  EXPECT_EQ(Ring(40).error, -ND_EINVAL);
}

TEST(Ring, KeepsSixteenEntriesFree) {
  Ring r(32);
  EXPECT_EQ(nd_ring_space(&r.ring), 16u);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(nd_ring_push(&r.ring, 0x1000, 0x2000, 4, ND_BARRIER_NONE), 0);
  }
  EXPECT_EQ(nd_ring_push(&r.ring, 0x1000, 0x2000, 4, ND_BARRIER_NONE), -ND_ENOMEM);
  EXPECT_EQ(nd_ring_release(&r.ring, 17), -ND_EINVAL);
  EXPECT_EQ(nd_ring_release(&r.ring, 16), 0);
}

TEST(Ring, TheRingIdStartsAtOneAndAdvancesAtEachWrap) {
  Ring r(48);
  for (uint32_t i = 0; i < 48 * 5; ++i) {
    const uint32_t expected = (1 + i / 48) & 3;
    ASSERT_EQ(nd_ring_push(&r.ring, i, i, 4, ND_BARRIER_NONE), 0);
    ASSERT_EQ(r.source[i % 48].control >> NEURON_DESC_RING_ID_SHIFT & 3, expected) << i;
    ASSERT_EQ(r.destination[i % 48].control >> NEURON_DESC_RING_ID_SHIFT & 3, expected) << i;
    nd_ring_release(&r.ring, 1);
  }
  nd_ring_reset(&r.ring);
  EXPECT_EQ(r.ring.ring_id, 1u);
  EXPECT_EQ(r.ring.next, 0u);
}

TEST(Ring, ACopyIsContinuedWhereTheRingWasFull) {
  Ring r(32);
  nd_copy copy = {0x10000, 0x900000, 20 * 65536 + 5, 0};
  EXPECT_EQ(nd_ring_push_copy(&r.ring, &copy, 1, ND_BARRIER_WRITE), 15u);
  EXPECT_EQ(copy.remaining, 5u * 65536 + 5);
  EXPECT_TRUE(r.source[14].meta & NEURON_META_WRITE_BARRIER);
  EXPECT_FALSE(r.source[13].meta & NEURON_META_WRITE_BARRIER);
  EXPECT_EQ(nd_ring_space(&r.ring), 1u);
  nd_ring_release(&r.ring, 15);
  EXPECT_EQ(nd_ring_push_copy(&r.ring, &copy, 1, ND_BARRIER_DMB), 6u);
  EXPECT_EQ(copy.remaining, 0u);
  const nd_descriptor& last = r.source[20];
  EXPECT_EQ(nd_descriptor_length(&last), 5u);
  EXPECT_TRUE(last.control & NEURON_DESC_DMB);
  EXPECT_EQ(last.address, 0x10000u + 20 * 65536);
}

TEST(Ring, APatternIsReadAgainAndAgain) {
  Ring r(64);
  nd_copy copy = {0x5000, 0x900000, 10000, 4096};
  EXPECT_EQ(nd_ring_push_copy(&r.ring, &copy, 1, ND_BARRIER_NONE), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(r.source[i].address, 0x5000u);
  EXPECT_EQ(r.destination[2].address, 0x900000u + 8192);
  EXPECT_EQ(nd_descriptor_length(&r.destination[2]), 10000u - 8192);
}

TEST(Queue, InitSequenceIsTheOneOfThePublicDriver) {
  const nd_queue_ring ring = {0x100012345600, 8192};
  nd_register_write writes[ND_QUEUE_INIT_WRITES];
  ASSERT_EQ(nd_queue_init_sequence(&nd_chip_v2, 32, 0, &ring, &ring, writes), 15u);
  const uint64_t offsets[] = {0x30601074, 0x30601020, 0x306010B0, 0x30601028, 0x3060102C,
                              0x30601030, 0x306010A0, 0x30601020, 0x30621020, 0x30621064,
                              0x30621028, 0x3062102C, 0x30621030, 0x30621054, 0x30621020};
  const uint32_t values[] = {3,          0x03000000, 0x100,      0x12345600, 0x1000,
                             0x2000,     0,          0x03030000, 0x03000000, 0x100,
                             0x12345600, 0x1000,     0x2000,     0,          0x03030000};
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(writes[i].offset, offsets[i]) << i;
    EXPECT_EQ(writes[i].value, values[i]) << i;
  }
  const nd_queue_ring none = {};
  EXPECT_EQ(nd_queue_init_sequence(&nd_chip_v2, 0, 0, &none, &ring, writes), 7u);
}

TEST(Queue, EngineSequenceFitsItsRoom) {
  nd_register_write writes[ND_ENGINE_INIT_WRITES];
  for (uint32_t engine = 0; engine < NEURON_V2_DMA_ENGINES; ++engine) {
    EXPECT_LE(nd_engine_init_sequence(&nd_chip_v2, engine, writes), size_t{ND_ENGINE_INIT_WRITES});
  }
}

TEST(Queue, RingsMustBeAlignedAndInsideTheirMemory) {
  nd_queue_ring ring = {0x1000, 64};
  EXPECT_EQ(nd_queue_check_ring(&ring, 1024), 0);
  EXPECT_EQ(nd_queue_check_ring(&ring, 1023), -ND_EINVAL);
  ring.address = 0x1080;
  EXPECT_EQ(nd_queue_check_ring(&ring, 4096), -ND_EINVAL);
}

TEST(Queue, DoorbellsAndBasesAreClosedToUserWrites) {
  for (uint32_t engine : {0u, 15u, 16u, 31u, 32u, 33u}) {
    for (uint32_t queue : {0u, 15u}) {
      for (bool tx : {true, false}) {
        for (uint32_t reg : {0x28u, 0x2Cu, 0x38u, 0x44u, 0x48u}) {
          EXPECT_EQ(nd_register_check_user_write(
                        &nd_chip_v2, nd_queue_register(&nd_chip_v2, engine, queue, tx, reg)),
                    -ND_EINVAL);
        }
        EXPECT_EQ(nd_register_check_user_write(
                      &nd_chip_v2, nd_queue_register(&nd_chip_v2, engine, queue, tx, 0x20)),
                  engine < 32 ? 0 : -ND_EINVAL);
      }
    }
  }
  EXPECT_EQ(nd_register_check_user_write(&nd_chip_v2, 0x30FA0800), -ND_EINVAL);
  EXPECT_EQ(nd_register_check_user_write(&nd_chip_v2, 0x30FA01F4), -ND_EINVAL);
  EXPECT_EQ(nd_register_check_user_write(&nd_chip_v2, 0x30FA00C0), 0);
  EXPECT_EQ(nd_register_check_user_write(&nd_chip_v2, 0x40000000), -ND_EINVAL);
  EXPECT_EQ(nd_register_check_user_write(&nd_chip_v2, 0x2610002), -ND_EINVAL);
}

TEST(Queue, NothingOfTheEnginesOfTheHostsCopiesOrOfTheFirmwareIsOpenToUserWrites) {
  for (const nd_chip* chip : {&nd_chip_v2, &nd_chip_v3, &nd_chip_v4}) {
    for (uint32_t core = 0; core < chip->cores; ++core) {
      uint32_t engine = 0, queue = 0;
      nd_queue_host_copy(chip, core, &engine, &queue);
      const uint64_t base = nd_chip_udma(chip, engine);
      for (uint64_t offset = 0; offset < NEURON_UDMA_SIZE; offset += 4) {
        ASSERT_EQ(nd_register_check_user_write(chip, base + offset), -ND_EINVAL)
            << "engine " << engine << ", offset " << offset;
      }
    }
    for (const uint64_t offset :
         {NEURON_FW_API_VERSION, NEURON_FW_ROUTING_ID, NEURON_FW_ECC_SRAM, NEURON_FW_HBM_REPAIR,
          NEURON_FW_ACKNOWLEDGE, NEURON_FW_DATA, NEURON_FW_DATA + NEURON_FW_DATA_SIZE - 4,
          NEURON_FW_RESET_MAP, NEURON_FW_RESET, NEURON_FW_REQUEST_HI, NEURON_FW_RESPONSE_LO,
          NEURON_FW_TRIGGER, NEURON_FW_STATUS}) {
      EXPECT_EQ(nd_register_check_user_write(chip, chip->misc_ram + offset), -ND_EINVAL) << offset;
    }
  }
}

TEST(Queue, InstructionFetchQueuesSurviveTheirProcess) {
  EXPECT_TRUE(nd_queue_is_instruction_fetch(&nd_chip_v2, 0, 14));
  EXPECT_TRUE(nd_queue_is_instruction_fetch(&nd_chip_v2, 26, 14));
  EXPECT_FALSE(nd_queue_is_instruction_fetch(&nd_chip_v2, 11, 14));
  EXPECT_FALSE(nd_queue_is_instruction_fetch(&nd_chip_v2, 0, 13));
  EXPECT_FALSE(nd_queue_is_instruction_fetch(&nd_chip_v2, 32, 14));
}

TEST(Queue, EngineStateIsDecodedWorstFirst) {
  EXPECT_EQ(nd_engine_state(0), 0u);
  EXPECT_EQ(nd_engine_state(0x1111), 2u);
  EXPECT_EQ(nd_engine_state(0x1211), 3u);
}

TEST(Descriptor, WindowsThatMayBeProgrammed) {
  EXPECT_TRUE(nd_chip_is_programmable(&nd_chip_v2, 0xFFFC0000000, 64));
  EXPECT_TRUE(nd_chip_is_programmable(&nd_chip_v2, 0xFFFC7FFFFC0, 64));
  EXPECT_FALSE(nd_chip_is_programmable(&nd_chip_v2, 0xFFFC7FFFFC1, 64));
  EXPECT_TRUE(nd_chip_is_programmable(&nd_chip_v2, 0xFFFD1400000, 4));
  EXPECT_FALSE(nd_chip_is_programmable(&nd_chip_v2, 0xFFFF0000000, 4));
  EXPECT_FALSE(nd_chip_is_programmable(&nd_chip_v2, ~uint64_t{0}, ~uint64_t{0}));
  EXPECT_TRUE(nd_chip_is_host(&nd_chip_v2, 0x100000000000));
  EXPECT_FALSE(nd_chip_is_host(&nd_chip_v2, 0x300000000000));
}

}  // namespace
