// SPDX-License-Identifier: Apache-2.0
// What a process cannot reach, whatever it writes into its descriptors: the driver's own rings and
// mailboxes, the buffers of copies in flight, and the registers that act with the driver's rights.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kEngine = 3, kQueue = 2, kRing = 32;
constexpr unsigned kSlotShift = 24;                  // of I/O addresses
constexpr uint64_t kOtherSpace = uint64_t{1} << 43;  // half of the addresses behind the host bit
constexpr uint32_t kSecret = 0x5EC4E75E;

class Isolation : public ServiceTest {
 protected:
  void SetUp() override {
    start("trn1.2xlarge", 0, core::create_chip);
    ASSERT_NE(session_, nullptr);
    tx_ = allocate(4096, true, NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST);
    rx_ = allocate(4096, true, NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST);
    mine_ = allocate(4096, true, 2);
    source_ = static_cast<nd_descriptor*>(mapped(tx_));
    destination_ = static_cast<nd_descriptor*>(mapped(rx_));
    words_ = static_cast<uint32_t*>(mapped(mine_));
  }
  void* mapped(uint64_t handle) {
    void* address = nullptr;
    EXPECT_EQ(session_->map(info(handle).size, 3, info(handle).pa, &address), 0) << last_error();
    return address;
  }
  // A ring of this process with one descriptor, as it would write it into its mapping. False: the
  // engine has refused an address.
  bool moves(uint64_t from, uint64_t to, uint32_t bytes) {
    neuron_ioctl_dma_eng_set_state normal = {kEngine, 2};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &normal), 0) << last_error();
    neuron_ioctl_dma_queue_init init = {kEngine, kQueue, kRing, kRing, tx_, rx_, 0, 0};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &init), 0) << last_error();
    source_[0] = nd_descriptor_source(from, bytes, 1, ND_BARRIER_NONE);
    destination_[0] = nd_descriptor_destination(to, bytes, 1);
    neuron_ioctl_dma_queue_copy_start start = {kEngine, kQueue, 1, 1};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start), 0) << last_error();
    neuron_dma_queue_state tx = {}, rx = {};
    neuron_ioctl_dma_queue_get_state get = {kEngine, kQueue, &tx, &rx};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &get), 0) << last_error();
    return (tx.head_pointer & NEURON_UDMA_INDEX_MASK) == 1;
  }
  bool reads(uint64_t io) { return moves(NEURON_V2_HOST_BASE | io, info(mine_).pa, 64); }
  bool writes(uint64_t io) { return moves(info(mine_).pa, NEURON_V2_HOST_BASE | io, 64); }
  // The slot of the newest allocation: where the next mappings will be.
  uint64_t newest_slot() {
    const uint64_t handle = allocate(4096, true, 2);
    const uint64_t slot = (info(handle).pa & ~NEURON_V2_HOST_BASE) >> kSlotShift;
    free_handle(handle);
    return slot;
  }
  void expect_copies_work() {
    const uint64_t handle = allocate(1 << 20);
    const auto bytes = random_bytes(1 << 20, 3);
    std::vector<uint8_t> back(bytes.size());
    EXPECT_EQ(buffer_copy(handle, const_cast<uint8_t*>(bytes.data()), bytes.size(), 0, true), 0)
        << last_error();
    EXPECT_EQ(buffer_copy(handle, back.data(), back.size(), 0, false), 0) << last_error();
    EXPECT_EQ(back, bytes);
    free_handle(handle);
  }

  uint64_t tx_ = 0, rx_ = 0, mine_ = 0;
  nd_descriptor* source_ = nullptr;
  nd_descriptor* destination_ = nullptr;
  uint32_t* words_ = nullptr;
};

// Of all that the driver has allocated at its start, only what processes are given as well.
TEST_F(Isolation, RingsReachDatastoresAndTheEmptyRingOfAllThatTheDriverHasAllocated) {
  const uint64_t newest = newest_slot();
  unsigned reachable = 0;
  for (uint64_t slot = 0; slot <= newest; ++slot) {
    for (const uint64_t half : {uint64_t{0}, kOtherSpace}) {
      reachable += reads(half | slot << kSlotShift);
    }
  }
  constexpr unsigned kOfThisTest = 3;
  EXPECT_EQ(reachable, ND_DATASTORES + 1 + kOfThisTest);
  expect_copies_work();
}

TEST_F(Isolation, NoRingFindsTheBufferOfACopyInFlight) {
  constexpr size_t kBytes = 16 << 20;
  constexpr unsigned kCopies = 12;
  std::atomic<unsigned> copies = 0;
  std::atomic<bool> stop = false;
  std::atomic<int> failures = 0;
  std::thread victim([&] {
    Session* session = nullptr;
    if (instance_->open(0, O_RDWR, kPid + 1, &session) != 0) {
      ++failures;
      return;
    }
    const uint64_t handle = allocate(kBytes, false, 9, 1, session);
    std::vector<uint32_t> buffer(kBytes / 4, kSecret);
    while (!stop) {
      neuron_ioctl_mem_buf_copy64 copy = {handle, buffer.data(), kBytes, 0, copies % 2 == 0};
      failures += session->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &copy) != 0;
      // What came from here is read only, what goes there comes from the device.
      failures +=
          std::any_of(buffer.begin(), buffer.end(), [](uint32_t word) { return word != kSecret; });
      ++copies;
    }
    failures += instance_->close(session) != 0;
  });
  unsigned found = 0;
  const auto look = [&](uint64_t io) {
    words_[0] = 0;
    if (!reads(io)) return;
    found += words_[0] == kSecret;
    if (words_[0] != kSecret) return;
    words_[0] = 0;
    writes(io);
  };
  for (uint64_t round = 0; copies < kCopies && found == 0; ++round) {
    // Mappings rotate: those of a copy that runs lie just before or behind the newest allocation.
    const uint64_t newest = newest_slot();
    for (uint64_t slot = newest - 8; slot < newest + 8; ++slot) {
      look(slot << kSlotShift);
      look(kOtherSpace | slot << kSlotShift);
    }
    // And from the first one upwards in a space of its own.
    look(kOtherSpace | (1 + round % (64 + 2 * kCopies)) << kSlotShift);
  }
  stop = true;
  victim.join();
  EXPECT_EQ(found, 0u);
  EXPECT_EQ(failures, 0);
}

TEST_F(Isolation, NoRingWritesRegistersThatActWithTheDriversRights) {
  const uint64_t copies = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(device().ring(0).engine());
  const uint64_t queue = copies + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, device().ring(0).queue());
  const uint64_t firmware = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_MISC_RAM;
  const auto word = [&](uint64_t address) { return moves(info(mine_).pa, address, 4); };
  words_[0] = 1;
  EXPECT_FALSE(word(queue + NEURON_UDMAQ_BASE_LO));
  EXPECT_FALSE(word(queue + NEURON_UDMAQ_LENGTH));
  EXPECT_FALSE(word(queue + NEURON_UDMAQ_TAIL_INC));
  EXPECT_FALSE(word(queue + NEURON_UDMAQ_M2S_SW_CONTROL));
  EXPECT_FALSE(word(copies + NEURON_UDMA_CHANGE_STATE));
  // The request of a reset would be carried out with the driver's next question.
  EXPECT_FALSE(word(firmware + NEURON_FW_RESET));
  EXPECT_FALSE(word(firmware + NEURON_FW_REQUEST_LO));
  // A queue beside it, which is the process's, can be programmed as ever.
  EXPECT_TRUE(word(copies + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 5) + NEURON_UDMAQ_BASE_LO));
  expect_copies_work();
}

TEST_F(Isolation, NoProcessStopsTheEngineOfTheHostsCopies) {
  for (uint32_t state : {0u, 3u}) {
    neuron_ioctl_dma_eng_set_state stop = {device().ring(1).engine(), state};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &stop), -EALREADY);
    EXPECT_THAT(last_error(), HasSubstr("carries the host's copies"));
  }
  expect_copies_work();
}

}  // namespace
}  // namespace neuron::service
