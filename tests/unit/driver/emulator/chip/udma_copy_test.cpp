// SPDX-License-Identifier: Apache-2.0
// What a host doorbell copies, and what it refuses.
#include <gtest/gtest.h>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

constexpr uint64_t kOther = NEURON_V2_HBM_STRIDE + 0x1000000;

TEST(UdmaCopy, CopiesAPacketBeforeTheDoorbellReturns) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 1000, 1);
  m.copy(0, kFrom, kOther, 1000);
  m.ring(0, 1, 1);
  EXPECT_TRUE(m.equal(kFrom, kOther, 1000));
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 1u | 1u << 30);
  EXPECT_EQ(m.get(0, true, NEURON_UDMAQ_TAIL), 1u | 1u << 30);
  EXPECT_EQ(m.errors.errors(), 0u);
}

TEST(UdmaCopy, WaitsForBothSides) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 64, 1);
  m.copy(0, kFrom, kTo, 64);
  m.ring(0, 0, 1);
  EXPECT_FALSE(m.equal(kFrom, kTo, 64));
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 1u << 30);
  m.ring(0, 1, 0);
  EXPECT_TRUE(m.equal(kFrom, kTo, 64));
}

TEST(UdmaCopy, TakesLengthZeroAs64KiB) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 0x10001, 1);
  m.copy(0, kFrom, kTo, 0x10000);
  m.ring(0, 1, 1);
  EXPECT_TRUE(m.equal(kFrom, kTo, 0x10000));
  EXPECT_EQ(*m.memory(kTo + 0x10000), std::byte{0});
}

TEST(UdmaCopy, FillsDestinationsWithTheBytesOfThePacketAndStartsEachPacketAfresh) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 0x400, 1);
  m.source(0, kFrom, 100, NEURON_DESC_FIRST);
  m.source(1, kFrom + 0x100, 50, 0);
  m.source(2, kFrom + 0x200, 25, NEURON_DESC_LAST);
  m.source(3, kFrom + 0x300, 10);
  m.destination(0, kTo, 60);
  m.destination(1, kTo + 0x100, 200);  // 115 bytes used, the rest left alone
  m.destination(2, kTo + 0x300, 10);
  m.ring(0, 3, 4);
  EXPECT_TRUE(m.equal(kTo, kFrom, 60));
  EXPECT_TRUE(m.equal(kTo + 0x100, kFrom + 60, 40));
  EXPECT_TRUE(m.equal(kTo + 0x100 + 40, kFrom + 0x100, 50));
  EXPECT_TRUE(m.equal(kTo + 0x100 + 90, kFrom + 0x200, 25));
  EXPECT_EQ(*m.memory(kTo + 0x100 + 115), std::byte{0});
  EXPECT_TRUE(m.equal(kTo + 0x300, kFrom + 0x300, 10));
}

TEST(UdmaCopy, TakesPacketsOf65DescriptorsAndNoMore) {
  Machine m(32);
  m.init(0, 256);
  m.fill(kFrom, 0x1000, 1);
  for (uint32_t i = 0; i < 65; ++i) {
    m.source(i, kFrom + 10 * i, 10,
             (i == 0 ? NEURON_DESC_FIRST : 0u) | (i == 64 ? NEURON_DESC_LAST : 0u));
  }
  m.destination(0, kTo, 650);
  m.ring(0, 1, 65);
  EXPECT_TRUE(m.equal(kFrom, kTo, 650));
  for (uint32_t i = 0; i < 66; ++i) {
    m.source(65 + i, kFrom, 10, (i == 0 ? NEURON_DESC_FIRST : 0u));
  }
  m.destination(1, kTo, 650);
  m.ring(0, 1, 66);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_RING);
  EXPECT_EQ(m.listener.faults[0].index, 130u);
}

TEST(UdmaCopy, RefusesPacketsOfAMebibyte) {
  Machine m(32);
  m.init(0, 64);
  for (uint32_t i = 0; i < 16; ++i) {
    m.copy(i, kFrom, kTo, 0x10000);
    m.source(i, kFrom, 0x10000,
             (i == 0 ? NEURON_DESC_FIRST : 0u) | (i == 15 ? NEURON_DESC_LAST : 0u));
  }
  m.ring(0, 16, 16);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_DESC);
}

TEST(UdmaCopy, WrapsAtALengthThatIsNoPowerOfTwoAndCountsRingIds) {
  Machine m(32);
  m.init(0, 48);
  m.fill(kFrom, 0x10000, 3);
  uint32_t pushed = 0;
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < 20; ++i, ++pushed) {
      const uint32_t id = (1 + pushed / 48) & 3;
      m.source(pushed % 48, kFrom + 16 * pushed, 16, NEURON_DESC_FIRST | NEURON_DESC_LAST, id);
      m.destination(pushed % 48, kTo + 16 * pushed, 16, 0, id);
    }
    m.ring(0, 20, 20);
  }
  EXPECT_TRUE(m.equal(kFrom, kTo, 16 * pushed));
  EXPECT_EQ(m.engine.ring_id_mismatches(), 0u);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 200u % 48 | ((1 + 200u / 48) & 3) << 30);
}

TEST(UdmaCopy, CountsStaleRingIdsAndCopiesNevertheless) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 64, 1);
  m.source(0, kFrom, 64, NEURON_DESC_FIRST | NEURON_DESC_LAST, 3);
  m.destination(0, kTo, 64, 0, 1);
  m.ring(0, 1, 1);
  EXPECT_TRUE(m.equal(kFrom, kTo, 64));
  EXPECT_EQ(m.engine.ring_id_mismatches(), 1u);
}

TEST(UdmaCopy, AcceptsARingThatIsCompletelyFullAndRefusesOneMore) {
  Machine m(0);
  m.init(2, 32);
  m.fill(kFrom, 32 * 64, 1);
  for (uint32_t i = 0; i < 32; ++i) m.copy(i, kFrom + 64 * i, kTo + 64 * i, 64);
  m.set(2, true, NEURON_UDMAQ_TAIL_INC, 32);
  m.set(2, true, NEURON_UDMAQ_TAIL_INC, 1);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_RING);
  m.set(2, false, NEURON_UDMAQ_TAIL_INC, 32);
  EXPECT_TRUE(m.equal(kFrom, kTo, 32 * 64));
  EXPECT_EQ(m.get(2, false, NEURON_UDMAQ_HEAD), 2u << 30);
}

TEST(UdmaCopy, CopiesBetweenHostAndHbmAndWritesTheMarkerLast) {
  Machine m(32);
  m.init(0, 64);
  std::byte* host = m.host.add(0x7000, 0x3000);
  m.fill(NEURON_V2_HOST_BASE + 0x7001, 0x1FFF, 9);
  const uint32_t marker = NEURON_DMA_COMPLETION_MARKER;
  std::memcpy(host + 0x2800, &marker, 4);
  m.copy(0, NEURON_V2_HOST_BASE + 0x7001, kTo + 3, 0x1FFF);
  m.copy(1, NEURON_V2_HOST_BASE + 0x9800, NEURON_V2_HOST_BASE + 0x9804, 4);
  m.ring(0, 2, 2);
  EXPECT_TRUE(m.equal(NEURON_V2_HOST_BASE + 0x7001, kTo + 3, 0x1FFF));
  EXPECT_EQ(m.read(NEURON_V2_HOST_BASE + 0x9804), marker);
}

TEST(UdmaCopy, MergesNeighboursAcrossHostRangesOnlyWhereMemoryIsInOnePiece) {
  Machine m(32);
  m.init(0, 64);
  for (uint64_t i = 0; i < 8; ++i) m.host.add(0x100000 + 0x1000 * i, 0x1000);
  for (uint64_t i = 0; i < 8; ++i) {
    m.fill(NEURON_V2_HOST_BASE + 0x100000 + 0x1000 * i, 0x1000, 7 + static_cast<unsigned>(i));
    m.copy(static_cast<uint32_t>(i), NEURON_V2_HOST_BASE + 0x100000 + 0x1000 * i, kTo + 0x1000 * i,
           0x1000);
  }
  m.ring(0, 8, 8);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(m.equal(NEURON_V2_HOST_BASE + 0x100000 + 0x1000 * i, kTo + 0x1000 * i, 0x1000));
  }
  EXPECT_EQ(m.errors.errors(), 0u);
}

TEST(UdmaCopy, KeepsTheOrderOfDescriptorsWhereRangesOverlap) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 64, 5);
  // Each packet reads what the one before has written: the first 64 bytes repeat.
  for (uint32_t i = 0; i < 16; ++i) m.copy(i, kFrom + 64 * i, kFrom + 64 * (i + 1), 64);
  m.ring(0, 16, 16);
  for (uint32_t i = 1; i <= 16; ++i) EXPECT_TRUE(m.equal(kFrom, kFrom + 64 * i, 64)) << i;
}

TEST(UdmaCopy, FillsMemoryFromAFixedSource) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 256, 5);
  for (uint32_t i = 0; i < 32; ++i) m.copy(i, kFrom, kTo + 256 * i, 256);
  m.ring(0, 32, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_TRUE(m.equal(kFrom, kTo + 256 * i, 256));
}

TEST(UdmaCopy, IncrementsASemaphoreThroughItsAlias) {
  Machine m(32);
  m.init(0, 64);
  const uint32_t one = 1;
  std::memcpy(m.memory(kFrom, 4), &one, 4);
  const uint64_t inc = Machine::kSemaphores + NEURON_SEM_BLOCK_INC + 4 * 30;
  for (uint32_t i = 0; i < 16; ++i) m.copy(i, kFrom, inc, 4);
  m.ring(0, 16, 16);
  EXPECT_EQ(m.semaphores.semaphore(30), 16u);
}

TEST(UdmaCopy, WritesRegistersAsWordsInAscendingOrder) {
  Machine m(32);
  m.init(0, 64);
  const uint32_t words[] = {5, 6, 7};
  std::memcpy(m.memory(kFrom, 12), words, 12);
  m.copy(0, kFrom, Machine::kSemaphores + NEURON_SEM_BLOCK_SET + 4 * 10, 12);
  m.ring(0, 1, 1);
  ASSERT_EQ(m.listener.changes.size(), 3u);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(m.listener.changes[i].index, 10 + i);
    EXPECT_EQ(m.listener.changes[i].after, 5 + i);
  }
}

TEST(UdmaCopy, ReadsRegistersAsASource) {
  Machine m(32);
  m.init(0, 64);
  m.semaphores.change(NEURON_UPDATE_WRITE, 7, 4711);
  m.copy(0, Machine::kSemaphores + NEURON_SEM_BLOCK_READ, kTo, 1024);
  m.ring(0, 1, 1);
  EXPECT_EQ(m.read(kTo + 28), 4711u);
}

// A register that notes who writes to it.
class Witness final : public RegisterTarget {
 public:
  Access last;

 protected:
  bool accepts(uint64_t, uint64_t, bool, const Access&) override { return true; }
  uint32_t read_word(uint64_t, const Access&) override { return 0; }
  void write_word(uint64_t, uint32_t, const Access& access) override { last = access; }
};

TEST(UdmaCopy, TransfersRungByTheHostCarryTheCoreOfTheirEngine) {
  for (const auto& [engine, core] : {std::pair{3u, 0}, {17u, 1}, {32u, 0}, {33u, 1}}) {
    Machine m(engine);
    Witness witness;
    constexpr uint64_t kWitness = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW(0);
    m.bus.attach(kWitness, 4, &witness, "witness");
    m.init(0, 64);
    m.copy(0, 0x10000, kWitness, 4);
    m.ring(0, 1, 1);
    EXPECT_EQ(witness.last.core, core) << "engine " << engine;
    EXPECT_EQ(witness.last.origin, Origin::kDma);
    EXPECT_EQ(witness.last.engine, NEURON_ENGINE_DMA);
  }
}

struct BrokenCopy {
  const char* name;
  uint32_t flags;
  uint32_t meta;
  uint64_t from;
  uint64_t to;
  neuron_fault code;
  bool s2m;
};

class UdmaBroken : public testing::TestWithParam<BrokenCopy> {};

TEST_P(UdmaBroken, PacketFaultsAndAbortsItsQueueOnly) {
  const BrokenCopy& broken = GetParam();
  Machine m(32);
  m.init(0, 64);
  m.init(1, 64, 0x300000, 0x400000);
  m.fill(kFrom, 64, 1);
  m.copy(0, kFrom, kTo, 64);
  m.source(1, broken.from, 64, broken.flags, 1, broken.meta);
  m.destination(1, broken.to, 64);
  m.copy(2, kFrom, kTo + 128, 64);
  m.ring(0, 3, 3);
  EXPECT_TRUE(m.equal(kFrom, kTo, 64));  // what came before is done
  EXPECT_EQ(*m.memory(kTo + 128), std::byte{0});
  ASSERT_EQ(m.listener.faults.size(), 1u);
  const DmaFault& fault = m.listener.faults[0];
  EXPECT_EQ(fault.code, broken.code);
  EXPECT_EQ(fault.s2m, broken.s2m);
  EXPECT_EQ(fault.index, 1u);
  EXPECT_EQ(fault.engine, 32);
  EXPECT_NE(fault.describe().find("DMA engine 32 queue 0"), std::string::npos);
  EXPECT_EQ(m.errors.errors(broken.code), 1u);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 1u | 1u << 30);
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), NEURON_UDMA_STATE_ABORT);
  // Dead until it is reset; the other queue goes on.
  m.ring(0, 1, 1);
  EXPECT_EQ(*m.memory(kTo + 128), std::byte{0});
  m.descriptor(0x300000, 0, 64 | NEURON_DESC_FIRST | NEURON_DESC_LAST, NEURON_META_DEFAULT, kFrom);
  m.descriptor(0x400000, 0, 64, 0, kTo + 0x1000);
  m.ring(1, 1, 1);
  EXPECT_TRUE(m.equal(kFrom, kTo + 0x1000, 64));
  m.init(0, 64);
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), NEURON_UDMA_STATE_NORMAL);
  m.ring(0, 1, 1);
  EXPECT_EQ(m.listener.faults.size(), 1u);
}

constexpr uint32_t kWhole = NEURON_DESC_FIRST | NEURON_DESC_LAST;
constexpr uint64_t kNowhere = 0x800000000;  // between the stacks
INSTANTIATE_TEST_SUITE_P(
    Rules, UdmaBroken,
    testing::Values(
        BrokenCopy{"NoFirst", NEURON_DESC_LAST, NEURON_META_DEFAULT, kFrom, kTo,
                   NEURON_FAULT_DMA_DESC, false},
        BrokenCopy{"Metadata", kWhole | NEURON_DESC_META, NEURON_META_DEFAULT, kFrom, kTo,
                   NEURON_FAULT_DMA_DESC, false},
        BrokenCopy{"Compute", kWhole,
                   (NEURON_META_DEFAULT & ~(7u << 23)) | NEURON_META_OP_COMPUTE << 23, kFrom, kTo,
                   NEURON_FAULT_DMA_DESC, false},
        BrokenCopy{"NoOperation", kWhole, 0, kFrom, kTo, NEURON_FAULT_DMA_DESC, false},
        BrokenCopy{"OperationType", kWhole, NEURON_META_DEFAULT | 1u << NEURON_META_TYPE_SHIFT,
                   kFrom, kTo, NEURON_FAULT_DMA_DESC, false},
        BrokenCopy{"Checksum", kWhole, NEURON_META_DEFAULT | 1u << 17, kFrom, kTo,
                   NEURON_FAULT_DMA_DESC, false},
        BrokenCopy{"SourceUnmapped", kWhole, NEURON_META_DEFAULT, kNowhere, kTo,
                   NEURON_FAULT_DMA_BUS, false},
        BrokenCopy{"DestinationUnmapped", kWhole, NEURON_META_DEFAULT, kFrom, kNowhere,
                   NEURON_FAULT_DMA_BUS, true},
        BrokenCopy{"SourceLeavesTheStack", kWhole, NEURON_META_DEFAULT, Machine::kStack - 32, kTo,
                   NEURON_FAULT_DMA_BUS, false},
        BrokenCopy{"HostUnmapped", kWhole, NEURON_META_DEFAULT, NEURON_V2_HOST_BASE, kTo,
                   NEURON_FAULT_DMA_BUS, false},
        BrokenCopy{"PeerChip", kWhole, NEURON_META_DEFAULT, kFrom, kTo | uint64_t{1} << 48,
                   NEURON_FAULT_DMA_BUS, true},
        BrokenCopy{"ReadOnlyRegisters", kWhole, NEURON_META_DEFAULT, kFrom,
                   Machine::kSemaphores + NEURON_SEM_BLOCK_READ, NEURON_FAULT_DMA_BUS, true},
        BrokenCopy{"MisalignedRegisters", kWhole, NEURON_META_DEFAULT, kFrom,
                   Machine::kSemaphores + NEURON_SEM_BLOCK_SET + 2, NEURON_FAULT_DMA_BUS, true},
        BrokenCopy{"AddressOverflow", kWhole, NEURON_META_DEFAULT, kFrom, UINT64_MAX - 16,
                   NEURON_FAULT_DMA_BUS, true}),
    [](const auto& info) { return info.param.name; });

TEST(UdmaCopy, FaultsOnARingWhoseMemoryIsNotThere) {
  Machine m(32);
  m.init(0, 64, kNowhere, Machine::kRingS2m);
  m.ring(0, 1, 1);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_BUS);
  EXPECT_EQ(m.listener.faults[0].address, kNowhere);
}

TEST(UdmaCopy, ReadsARingThatIsOnlyPartlyMappedAsFarAsItIs) {
  Machine m(32);
  m.host.add(0x50000, 32 * 16);
  m.fill(kFrom, 64, 1);
  m.init(0, 64, NEURON_V2_HOST_BASE + 0x50000, Machine::kRingS2m);
  m.descriptor(NEURON_V2_HOST_BASE + 0x50000, 0, 64 | kWhole, NEURON_META_DEFAULT, kFrom);
  m.destination(0, kTo, 64);
  m.ring(0, 1, 1);
  EXPECT_TRUE(m.equal(kFrom, kTo, 64));
}

TEST(UdmaCopy, PostsANotificationForADescriptorThatAsksForIt) {
  Machine m(32);
  Access host;
  const auto set = [&](unsigned reg, uint32_t value) {
    std::array<uint32_t, 1> word = {value};
    EXPECT_TRUE(m.wrapper.write(NEURON_V2_SDMA_NOTIFICATION + NEURON_NQ_BASE(0) + reg,
                                std::as_bytes(std::span(word)), host));
  };
  set(NEURON_NQ_ADDRESS_LO, 0x500000);
  set(NEURON_NQ_SIZE, 1024);
  m.init(3, 64);
  m.source(0, kFrom, 100, kWhole | NEURON_DESC_NOTIFY);
  m.destination(0, kTo, 100);
  m.copy(1, kFrom, kTo, 100);
  m.ring(3, 2, 2);
  neuron_notification entry;
  std::memcpy(&entry, m.memory(0x500000, 32), 32);
  EXPECT_EQ(entry.word, 1u | NEURON_NK_DMA << 1 | NEURON_ENGINE_DMA << 5);
  EXPECT_EQ(entry.info[0], 32u << 8 | 3u);
  EXPECT_EQ(entry.info[1], 100u);
  std::memcpy(&entry, m.memory(0x500020, 32), 32);
  EXPECT_EQ(entry.word, 0u);
}

}  // namespace
}  // namespace neuron::chip
