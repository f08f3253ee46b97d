// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_memory.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>

#include "tests/unit/driver/emulator/transport/vfio_user/vfio_user_client.h"

namespace neuron::transport {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class GuestMemoryTest : public testing::Test {
 protected:
  GuestMemoryTest() { memory.set_bus_master(true); }
  int map(uint64_t address, uint64_t size, int file, uint64_t offset = 0, bool writable = true) {
    why.clear();
    return memory.map(address, size, file, offset, writable, why);
  }
  GuestMemory memory;
  GuestRam ram{4 * kMiB};
  std::string why;
};

TEST_F(GuestMemoryTest, GivesTheBytesOfTheFileAtItsOffset) {
  ram.set_word(3 * kMiB, 0x11223344);
  ASSERT_EQ(map(0x40000000, kMiB, ram.file(), 3 * kMiB), 0);
  const std::byte* at = memory.translate(0x40000000, 4);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(std::memcmp(at, ram.at(3 * kMiB), 4), 0);
  EXPECT_EQ(memory.translate(0x40000000 + kMiB - 2, 4), nullptr);
  EXPECT_EQ(memory.translate(0x3FFFFFFE, 4), nullptr);
  EXPECT_EQ(memory.bytes(), kMiB);
}

TEST_F(GuestMemoryTest, LetsATransferCrossMapsThatAdjoin) {
  ASSERT_EQ(map(0, kMiB, ram.file(), 0), 0);
  ASSERT_EQ(map(kMiB, kMiB, ram.file(), 2 * kMiB), 0);
  std::byte* at = memory.translate(kMiB - 8, 16);
  ASSERT_NE(at, nullptr);
  std::memset(at, 0x5A, 16);
  EXPECT_EQ(ram.word(kMiB - 4), 0x5A5A5A5Au);
  EXPECT_EQ(ram.word(2 * kMiB), 0x5A5A5A5Au);
  EXPECT_EQ(ram.word(kMiB), 0u);
}

TEST_F(GuestMemoryTest, RefusesATransferAcrossAGapOrARangeWithoutFile) {
  ASSERT_EQ(map(0, kMiB, ram.file()), 0);
  ASSERT_EQ(map(2 * kMiB, kMiB, ram.file()), 0);
  EXPECT_EQ(memory.translate(kMiB - 4, 8), nullptr);
  ASSERT_EQ(map(kMiB, kMiB, -1), 0);
  EXPECT_EQ(memory.translate(kMiB - 4, 8), nullptr);
  EXPECT_EQ(memory.translate(kMiB, 4), nullptr);
  EXPECT_EQ(memory.maps(), 3u);
  EXPECT_EQ(memory.file_maps(), 2u);
}

// Anything mapped at a place in a window that is not there would replace memory of the process.
TEST(GuestMemoryWithoutAddressSpace, MapsNothingAndReachesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  GuestRam ram{kMiB};
  const rlimit none{1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  GuestMemory memory;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_FALSE(memory.valid());
  memory.set_bus_master(true);
  std::string why;
  EXPECT_EQ(memory.map(0x40000000, kMiB, ram.file(), 0, true, why), ENOMEM);
  EXPECT_EQ(memory.translate(0x40000000, 4), nullptr);
}

TEST_F(GuestMemoryTest, RefusesOverlapsAndPiecesOfPages) {
  ASSERT_EQ(map(kMiB, kMiB, ram.file()), 0);
  EXPECT_EQ(map(kMiB + 4096, 4096, ram.file()), EEXIST);
  EXPECT_EQ(map(0, 2 * kMiB, -1), EEXIST);
  EXPECT_EQ(map(2 * kMiB - 4096, kMiB, -1), EEXIST);
  EXPECT_EQ(map(16 * kMiB, 100, ram.file()), EINVAL);
  EXPECT_EQ(map(16 * kMiB + 8, 4096, ram.file()), EINVAL);
  EXPECT_EQ(map(16 * kMiB, 4096, ram.file(), 12), EINVAL);
  EXPECT_EQ(map(UINT64_MAX - 4095, 8192, -1), EINVAL);
  EXPECT_EQ(map(16 * kMiB, 0, -1), EINVAL);
  EXPECT_EQ(memory.maps(), 1u);
}

TEST_F(GuestMemoryTest, RefusesAMapThatIsLongerThanItsFile) {
  EXPECT_EQ(map(0, 8 * kMiB, ram.file()), EINVAL);
  EXPECT_EQ(map(0, kMiB, ram.file(), 4 * kMiB), EINVAL);
  EXPECT_EQ(map(0, kMiB, ram.file(), uint64_t{1} << 62), EINVAL);
  EXPECT_NE(why.find("4194304 bytes"), std::string::npos) << why;
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(map(0, 4096, pipes[0]), EINVAL);
  close(pipes[0]);
  close(pipes[1]);
}

TEST_F(GuestMemoryTest, KnowsButDoesNotReachWhatLiesAboveItsWindow) {
  EXPECT_EQ(map(uint64_t{1} << 44, kMiB, ram.file()), 0);
  EXPECT_NE(why.find("above"), std::string::npos) << why;
  EXPECT_EQ(memory.translate(uint64_t{1} << 44, 4), nullptr);
  EXPECT_EQ(memory.unmap(uint64_t{1} << 44, kMiB, why), 0);
}

TEST_F(GuestMemoryTest, UnmapsWholeMapsAndNoPartsOfThem) {
  ASSERT_EQ(map(0, kMiB, ram.file()), 0);
  ASSERT_EQ(map(kMiB, kMiB, -1), 0);
  EXPECT_EQ(memory.unmap(0, 4096, why), EINVAL);
  EXPECT_EQ(memory.unmap(4096, 2 * kMiB, why), EINVAL);
  EXPECT_EQ(memory.unmap(8 * kMiB, kMiB, why), ENOENT);
  EXPECT_EQ(memory.unmap(UINT64_MAX, 2, why), EINVAL);
  EXPECT_EQ(memory.maps(), 2u);
  EXPECT_EQ(memory.unmap(0, 2 * kMiB, why), 0);
  EXPECT_EQ(memory.maps(), 0u);
  EXPECT_EQ(memory.translate(0, 4), nullptr);
  EXPECT_EQ(map(0, kMiB, ram.file()), 0) << why;
}

TEST_F(GuestMemoryTest, KeepsALateTransferAwayFromWhatWasUnmapped) {
  ASSERT_EQ(map(0, kMiB, ram.file()), 0);
  std::byte* at = memory.translate(64, 4);
  ASSERT_NE(at, nullptr);
  ASSERT_EQ(memory.unmap(0, kMiB, why), 0);
  std::memset(at, 0xEE, 4);
  EXPECT_EQ(ram.word(64), 0u);
}

// A thread sanitizer takes a change of maps for a write. Here it is the point that pages go while
// they are written.
__attribute__((no_sanitize("thread"))) void fill(volatile std::byte* at, size_t size) {
  for (size_t i = 0; i < size; ++i) at[i] = std::byte{0x77};
}

TEST_F(GuestMemoryTest, SurvivesMapsThatComeAndGoUnderARunningTransfer) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> moved = 0;
  std::thread transfers([&] {
    while (!stop) {
      std::byte* at = memory.translate(kMiB - 4096, 8192);
      if (at == nullptr) continue;
      fill(at, 8192);
      ++moved;
    }
  });
  for (int i = 0; i < 200 || (moved == 0 && i < 100000); ++i) {
    ASSERT_EQ(map(0, kMiB, ram.file(), 0), 0);
    ASSERT_EQ(map(kMiB, kMiB, ram.file(), kMiB), 0);
    ASSERT_EQ(memory.unmap(0, 2 * kMiB, why), 0);
  }
  stop = true;
  transfers.join();
  EXPECT_GT(moved, 0u);
}

TEST_F(GuestMemoryTest, LosesWritesToMemoryThatTheGuestMayNotBeWrittenThrough) {
  ram.set_word(0, 0xAAAAAAAA);
  ASSERT_EQ(map(0, kMiB, ram.file(), 0, false), 0);
  std::byte* at = memory.translate(0, 4);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(std::memcmp(at, ram.at(0), 4), 0);
  std::memset(at, 0, 4);
  EXPECT_EQ(ram.word(0), 0xAAAAAAAAu);
}

TEST_F(GuestMemoryTest, ReadsZerosWhereAClientHasShortenedItsFile) {
  GuestRam loose(kMiB, false);
  loose.set_word(512 * 1024, 0x99999999);
  ASSERT_EQ(map(0, kMiB, loose.file()), 0);
  std::byte* at = memory.translate(512 * 1024, 4);
  ASSERT_NE(at, nullptr);
  ASSERT_EQ(ftruncate(loose.file(), 4096), 0);
  uint32_t value = 1;
  std::memcpy(&value, at, 4);
  EXPECT_EQ(value, 0u);
  std::memset(at, 1, 4);
}

TEST_F(GuestMemoryTest, IsOutOfReachUntilTheFunctionIsBusMaster) {
  ASSERT_EQ(map(0, kMiB, ram.file()), 0);
  memory.set_bus_master(false);
  EXPECT_EQ(memory.translate(0, 4), nullptr);
  memory.set_bus_master(true);
  EXPECT_NE(memory.translate(0, 4), nullptr);
}

TEST_F(GuestMemoryTest, TakesNoMoreMapsWithFilesThanItHasMappingsFor) {
  for (size_t i = 0; i < GuestMemory::kMaxFileMaps; ++i) {
    ASSERT_EQ(map(i * 8192, 4096, ram.file()), 0) << i << why;
  }
  EXPECT_EQ(map(uint64_t{1} << 32, 4096, ram.file()), ENOSPC);
  EXPECT_EQ(map(uint64_t{1} << 32, 4096, -1), 0);
  memory.unmap_all();
  EXPECT_EQ(memory.file_maps(), 0u);
}

}  // namespace
}  // namespace neuron::transport
