// SPDX-License-Identifier: Apache-2.0
// Calls that move bytes, through rings that the fake chip really reads.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/emulator/service/error.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

class CopyCalls : public ServiceTest {
 protected:
  int copy(uint64_t from, uint64_t to, uint64_t size, uint64_t from_offset, uint64_t to_offset) {
    neuron_ioctl_mem_copy64 request = {from, to, size, from_offset, to_offset};
    return session_->ioctl(NEURON_IOCTL_MEM_COPY64, &request);
  }
  std::vector<uint8_t> read(uint64_t handle, uint64_t size, uint64_t offset = 0) {
    std::vector<uint8_t> bytes(size);
    EXPECT_EQ(buffer_copy(handle, bytes.data(), size, offset, false), 0) << last_error();
    return bytes;
  }
};

TEST_F(CopyCalls, BuffersOfOddSizesAndAddressesSurviveTheWayRound) {
  const uint64_t handle = allocate(1 << 20);
  for (size_t size : {size_t{1}, size_t{3}, size_t{4095}, size_t{65535}, size_t{65536},
                      size_t{65537}, size_t{300001}}) {
    auto bytes = random_bytes(size + 1, static_cast<uint32_t>(size));
    ASSERT_EQ(buffer_copy(handle, bytes.data() + 1, size, 7, true), 0) << last_error();
    bytes.erase(bytes.begin());
    EXPECT_EQ(read(handle, size, 7), bytes) << size;
  }
}

TEST_F(CopyCalls, ACopyIsCutIntoPiecesOf64KiBAndOneMarker) {
  const uint64_t a = allocate(1 << 20);
  const uint64_t b = allocate(1 << 20);
  behaviour_.packets = 0;
  behaviour_.doorbells = 0;
  ASSERT_EQ(copy(a, b, 5 * 65536 + 1, 0, 0), 0) << last_error();
  EXPECT_EQ(behaviour_.packets, 7u);
  EXPECT_EQ(behaviour_.doorbells, 2u);
}

TEST_F(CopyCalls, DescriptorsHaveTheFormOfThePublicDriver) {
  const uint64_t handle = allocate(1 << 20);
  std::vector<uint8_t> bytes(65536 + 4096, 1);
  ASSERT_EQ(buffer_copy(handle, bytes.data(), bytes.size(), 0, true), 0);
  nd_ring ring = {};
  alignas(16) nd_descriptor source[64] = {};
  alignas(16) nd_descriptor destination[64] = {};
  ASSERT_EQ(nd_ring_init(&ring, source, destination, 64), 0);
  nd_copy wanted = {0x100001000000, 0x1000000, 65536 + 4096, 0};
  ASSERT_EQ(nd_ring_push_copy(&ring, &wanted, 1, ND_BARRIER_WRITE), 2u);
  EXPECT_EQ(source[0].control, 0x0D000000u);
  EXPECT_EQ(source[0].meta, 0x01080003u);
  EXPECT_EQ(source[1].control, 0x0D001000u);
  EXPECT_EQ(source[1].meta, 0x05080003u);
  EXPECT_EQ(destination[0].control, 0x01000000u);
  EXPECT_EQ(destination[0].meta, 0u);
  EXPECT_EQ(destination[1].address, 0x1010000u);
}

TEST_F(CopyCalls, TheRingWrapsThroughAllIdsWithoutAMismatch) {
  const uint64_t a = allocate(32 << 20);
  const uint64_t b = allocate(32 << 20, false, 9, 0);
  const auto bytes = random_bytes(65536 * 3 + 17, 5);
  ASSERT_EQ(buffer_copy(a, const_cast<uint8_t*>(bytes.data()), bytes.size(), 0, true), 0);
  behaviour_.ring_id_errors = 0;
  // 513 descriptors a copy, 8192 in the ring: more than four laps.
  for (int i = 0; i < 70; ++i) ASSERT_EQ(copy(a, b, 32 << 20, 0, 0), 0) << last_error();
  EXPECT_EQ(behaviour_.ring_id_errors, 0u);
  EXPECT_EQ(read(b, bytes.size()), bytes);
}

TEST_F(CopyCalls, ACopyLargerThanTheRingTakesSeveralDoorbells) {
  const uint64_t a = allocate(uint64_t{540} << 20);
  const uint64_t b = allocate(uint64_t{540} << 20);
  std::vector<uint8_t> tail(100, 0xAB);
  const uint64_t last = (uint64_t{540} << 20) - 100;
  ASSERT_EQ(buffer_copy(a, tail.data(), 100, last, true), 0);
  behaviour_.doorbells = 0;
  ASSERT_EQ(copy(a, b, 100, last, last), 0);
  EXPECT_EQ(behaviour_.doorbells, 2u);
  EXPECT_EQ(read(b, 100, last), tail);
}

TEST_F(CopyCalls, RangesBeyondAnAllocationAreRefusedBeforeAnythingMoves) {
  const uint64_t a = allocate(4096);
  const uint64_t b = allocate(8192);
  char byte = 0;
  behaviour_.doorbells = 0;
  EXPECT_EQ(copy(a, b, 4097, 0, 0), -EINVAL);
  EXPECT_EQ(copy(b, a, 4096, 0, 1), -EINVAL);
  EXPECT_EQ(copy(a, b, 1, ~uint64_t{0}, 0), -EINVAL);
  EXPECT_EQ(buffer_copy(a, &byte, 1, 4096, true), -EINVAL);
  EXPECT_EQ(buffer_copy(a, nullptr, 1, 0, true), -EFAULT);
  EXPECT_EQ(buffer_copy(a, reinterpret_cast<void*>(~uint64_t{0} - 2), 1, 0, true), -EFAULT);
  EXPECT_EQ(behaviour_.doorbells, 0u);
  EXPECT_EQ(copy(a, b, 4096, 0, 4096), 0) << last_error();
}

TEST_F(CopyCalls, HostAndDeviceMemoryCopyInAllDirections) {
  const uint64_t hosts[] = {allocate(4096, true, 2), allocate(4096, true, 2)};
  const uint64_t devices[] = {allocate(4096), allocate(4096, false, 9, 1)};
  auto bytes = random_bytes(4096, 9);
  ASSERT_EQ(buffer_copy(hosts[0], bytes.data(), 4096, 0, true), 0);
  ASSERT_EQ(copy(hosts[0], devices[0], 4096, 0, 0), 0) << last_error();
  ASSERT_EQ(copy(devices[0], devices[1], 4096, 0, 0), 0) << last_error();
  ASSERT_EQ(copy(devices[1], hosts[1], 4096, 0, 0), 0) << last_error();
  EXPECT_EQ(read(hosts[1], 4096), bytes);
}

TEST_F(CopyCalls, FillWritesOneByteEverywhereAndNothingBeside) {
  const uint64_t handle = allocate(1 << 20);
  std::vector<uint8_t> expected(300000, 0);
  neuron_ioctl_memset64 fill = {handle, 100, 0x1CD, 200000};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEMSET64, &fill), 0) << last_error();
  std::fill(expected.begin() + 100, expected.begin() + 200100, 0xCD);
  EXPECT_EQ(read(handle, expected.size()), expected);
  neuron_ioctl_memset narrow = {handle, 0, 1, 50};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEMSET, &narrow), 0);
  std::fill(expected.begin(), expected.begin() + 50, 1);
  EXPECT_EQ(read(handle, expected.size()), expected);
}

TEST_F(CopyCalls, ZeroCopyTakesBothFormsAndBatches) {
  const uint64_t handle = allocate(1 << 20);
  auto bytes = random_bytes(200000, 3);
  neuron_ioctl_mem_buf_copy64zc wide = {handle, bytes.data(), bytes.size(), 0, 1, 0, -1, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64, &wide), 0) << last_error();
  std::vector<uint8_t> back(200000);
  neuron_ioctl_mem_buf_copy64 narrow = {handle, back.data(), back.size(), 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24, &narrow), 0) << last_error();
  EXPECT_EQ(back, bytes);
  wide.h2t_qid = 5;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64, &wide), -ENOENT);

  uint8_t first[100] = {1};
  uint8_t second[10] = {2};
  const nrt_tensor_batch_op_t ops[] = {{0, 100, first}, {500, 10, second}};
  neuron_memcpy_batch_t batch = {handle, 1000, ops, 2, 0, 0, nullptr};
  neuron_ioctl_mem_buf_copy64zc_batches batches = {0, &batch, 1, 1, -1, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &batches), 0);
  EXPECT_EQ(read(handle, 1, 1000)[0], 1);
  EXPECT_EQ(read(handle, 1, 1500)[0], 2);
  batch.num_ops = 0;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &batches), -EINVAL);
  batches.num_batches = 0;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &batches), -EINVAL);
}

TEST_F(CopyCalls, AsynchronousCopiesHandOutTheTwoHandlesInTurn) {
  const uint64_t a = allocate(4096);
  const uint64_t b = allocate(4096);
  neuron_ioctl_mem_copy_async64 request = {a, b, 4096, 0, 0, 0, static_cast<__u32>(-1), 9};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEM_COPY_ASYNC64, &request), 0) << last_error();
  EXPECT_EQ(request.wait_handle, 1u);
  request.pwait_handle = 1;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEM_COPY_ASYNC64, &request), 0) << last_error();
  EXPECT_EQ(request.wait_handle, 2u);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_COPY_ASYNC64, &request), -EINVAL);  // 1 was awaited
  neuron_ioctl_mem_copy_async_wait wait = {a, b, 2};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, &wait), 0) << last_error();
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, &wait), -EINVAL);
}

TEST_F(CopyCalls, EnginesAreProgrammedOnlyInsideTheCoreWindows) {
  uint8_t words[64] = {};
  neuron_ioctl_program_engine_nc64 request = {0, 0x1000000, words, 64, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request), -ENOMEM);
  EXPECT_THAT(last_error(), HasSubstr("core window"));
  request.dst = NEURON_V2_BAR0_DEVICE_BASE + 2 * NEURON_V2_CORE_WINDOW_SIZE - 32;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request), -ENOMEM);
  request.nc_id = 2;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request), -E2BIG);
}

TEST_F(CopyCalls, ARefusedDescriptorIsReportedAndTheNextCopyWorks) {
  // The fake chip has no core windows, so its engine refuses this destination.
  uint8_t words[64] = {};
  neuron_ioctl_program_engine_nc64 request = {0, NEURON_V2_BAR0_DEVICE_BASE, words, 64, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request), -EIO);
  EXPECT_THAT(last_error(), HasSubstr("DMA engine 32 queue 0"));
  EXPECT_THAT(last_error(), HasSubstr("0xfffc0000000"));
  const uint64_t handle = allocate(4096);
  EXPECT_EQ(buffer_copy(handle, words, 64, 0, true), 0) << last_error();
}

TEST_F(CopyCalls, MemoryFreedDuringACopyIsNotReusedBeforeItEnds) {
  const uint64_t handle = allocate(1 << 20);
  const uint64_t before = memory().free_bytes(0);
  {
    const Pin pin = memory().pin(handle);
    ASSERT_TRUE(pin);
    ASSERT_EQ(free_handle(handle), 0);
    EXPECT_FALSE(memory().pin(handle));
    EXPECT_EQ(memory().free_bytes(0), before);
  }
  EXPECT_EQ(memory().free_bytes(0), before + (1 << 20));
}

}  // namespace
}  // namespace neuron::service
