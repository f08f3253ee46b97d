// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "fixture.h"

namespace neuron::ndl::testing {
namespace {

using Memory = Library;

std::vector<uint8_t> pattern(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

TEST_F(Memory, ReturnsWhatWasWrittenThroughBothWaysOfCopying) {
  open();
  const uint64_t handle = allocate(8192);
  std::vector<uint8_t> in = pattern(1000), out(1000);
  ASSERT_EQ(ndl_memory_buf_copyin(handle, in.data(), 24, in.size()), 0);
  ASSERT_EQ(ndl_memory_buf_zerocopyout(handle, out.data(), 24, out.size(), -1), 0);
  EXPECT_EQ(out, in);
  ASSERT_EQ(ndl_memset(handle, 0, 0x1A5, 8192), 0);
  ASSERT_EQ(ndl_memory_buf_zerocopyin(handle, in.data(), 7000, 1000, -1, 64), 0);
  std::vector<uint8_t> all(8192);
  ASSERT_EQ(ndl_memory_buf_copyout(handle, all.data(), 0, all.size()), 0);
  EXPECT_EQ(all[6999], 0xA5) << "a fill uses the low byte";
  EXPECT_TRUE(std::equal(in.begin(), in.end(), all.begin() + 7000));
  EXPECT_EQ(ndl_memory_free(handle), 0);
}

TEST_F(Memory, RefusesRangesOutsideTheAllocationBeforeTheDriverSeesThem) {
  open();
  const uint64_t handle = allocate(4096);
  char byte = 0;
  const size_t calls = driver.requests.size();
  EXPECT_EQ(ndl_memory_buf_copyin(handle, &byte, 4096, 1), -EINVAL);
  EXPECT_TRUE(says("leaves the allocation of 4096 bytes")) << last_error();
  EXPECT_EQ(ndl_memory_buf_zerocopyout(handle, &byte, UINT64_MAX, 2, -1), -EINVAL);
  EXPECT_EQ(ndl_memset(handle, 4000, 0, 97), -EINVAL);
  EXPECT_EQ(ndl_memory_copy(handle, handle, 0, 1, 4096), -EINVAL);
  EXPECT_EQ(driver.requests.size(), calls);
  EXPECT_EQ(ndl_memory_buf_copyin(handle, nullptr, 4096, 0), 0) << "0 bytes at the end are inside";
}

TEST_F(Memory, RecognisesStaleAndInventedHandles) {
  open();
  const uint64_t first = allocate(4096);
  ASSERT_EQ(ndl_memory_free(first), 0);
  EXPECT_EQ(ndl_memory_free(first), -EINVAL);
  EXPECT_TRUE(says("no memory handle")) << last_error();
  const uint64_t second = allocate(4096);
  EXPECT_NE(first, second);
  uint64_t pa = 0;
  EXPECT_EQ(ndl_memory_get_pa(first, &pa), -EINVAL) << "the slot was reused, the handle is not";
  for (uint64_t invented : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, second + 1,
                            second ^ (uint64_t{1} << 63), reinterpret_cast<uint64_t>(&pa)}) {
    EXPECT_EQ(ndl_memory_get_pa(invented, &pa), -EINVAL) << invented;
  }
  EXPECT_EQ(ndl_memory_get_pa(second, &pa), 0);
  EXPECT_NE(pa, 0u);
}

TEST_F(Memory, MapsOnceAndUnmapsWhenFreed) {
  open();
  const uint64_t handle = allocate(5000);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(ndl_memory_map(handle, &first), 0);
  ASSERT_EQ(ndl_memory_map(handle, &second), 0);
  EXPECT_EQ(first, second);
  EXPECT_EQ(driver.mappings, 1);
  int device_index = -1, hbm = -1;
  EXPECT_EQ(ndl_get_va_placement(static_cast<char*>(first) + 8191, &device_index, &hbm), 0);
  EXPECT_EQ(device_index, 0);
  EXPECT_EQ(ndl_get_va_placement(&device_index, &device_index, &hbm), -EINVAL);
  EXPECT_EQ(ndl_memory_free(handle), 0);
  EXPECT_EQ(driver.mappings, 0);
}

TEST_F(Memory, GoesWithItsDevice) {
  open();
  const uint64_t handle = allocate(4096);
  void* va = nullptr;
  ASSERT_EQ(ndl_memory_map(handle, &va), 0);
  ASSERT_EQ(ndl_close_device(device), 0);
  device = nullptr;
  EXPECT_EQ(driver.mappings, 0);
  EXPECT_EQ(ndl_memory_map(handle, &va), -EINVAL);
}

TEST_F(Memory, FallsBackToTheBounceBufferWhereZeroCopyIsRefused) {
  driver.refuses_zero_copy = true;
  open();
  const uint64_t handle = allocate(4096);
  std::vector<uint8_t> in = pattern(64), out(64);
  ASSERT_EQ(ndl_memory_buf_zerocopyin(handle, in.data(), 0, 64, -1, 0), 0) << last_error();
  ASSERT_EQ(ndl_memory_buf_zerocopyout(handle, out.data(), 0, 64, -1), 0);
  EXPECT_EQ(out, in);
  EXPECT_EQ(driver.count(124), 1) << "a refusal is remembered";
  EXPECT_EQ(ndl_memory_buf_zerocopyin(handle, in.data(), 0, 64, 5, 0), 0)
      << "and holds for any queue";
}

TEST_F(Memory, UsesTheZeroCopyCallThatAnOlderDriverHas) {
  driver.features = 0xFF;
  open();
  const uint64_t handle = allocate(4096);
  std::vector<uint8_t> in = pattern(64), out(64);
  ASSERT_EQ(ndl_memory_buf_zerocopyin(handle, in.data(), 32, 64, -1, 0), 0) << last_error();
  ASSERT_EQ(ndl_memory_buf_zerocopyout(handle, out.data(), 32, 64, 3), 0) << last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(driver.count(124), 2);
  EXPECT_EQ(driver.count(24), 0) << "nothing went through the bounce buffer";
  const nrt_tensor_batch_op_t ops[] = {{0, 32, in.data()}, {32, 32, in.data() + 32}};
  neuron_memcpy_batch_t batch = {};
  batch.mem_handle = handle;
  batch.ops_ptr = ops;
  batch.num_ops = 2;
  ASSERT_EQ(ndl_memory_buf_batch_copy(&batch, 1, 1, -1), 0) << last_error();
  EXPECT_EQ(driver.count(129), 0) << "batches came later";
  EXPECT_EQ(driver.count(124), 4);
}

TEST_F(Memory, NeverAsksAnOlderDriverForMorePagesThanItsTableHolds) {
  driver.features = 0xFF;
  open();
  constexpr size_t kTable = 64 * 4096;
  const uint64_t handle = allocate(2 * kTable);
  alignas(4096) static std::array<uint8_t, 3 * kTable> in, out;
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 7 + i / 4096);
  // Where malloc() puts large buffers: 16 bytes behind the beginning of a page.
  for (const size_t inside : {size_t{0}, size_t{16}, size_t{4095}}) {
    for (const size_t size : {kTable - 4095, kTable - 15, kTable, kTable + 1, 2 * kTable}) {
      out.fill(0);
      ASSERT_EQ(ndl_memory_buf_zerocopyin(handle, in.data() + inside, 0, size, -1, 0), 0);
      ASSERT_EQ(ndl_memory_buf_zerocopyout(handle, out.data() + inside, 0, size, -1), 0);
      EXPECT_EQ(std::memcmp(in.data() + inside, out.data() + inside, size), 0);
      EXPECT_LE(driver.most_pinned, 64u) << size << " bytes, " << inside << " inside a page";
    }
  }
  EXPECT_EQ(driver.most_pinned, 64u);
  EXPECT_EQ(driver.count(24), 0) << "nothing went through the bounce buffer";
}

TEST_F(Memory, CopiesThroughTheBounceBufferOnADriverBeforeZeroCopy) {
  driver.features = 0xFF;
  driver.refuses_zero_copy = true;
  open();
  const uint64_t handle = allocate(4096);
  std::vector<uint8_t> in = pattern(64), out(64);
  ASSERT_EQ(ndl_memory_buf_zerocopyin(handle, in.data(), 0, 64, 2, 0), 0) << last_error();
  ASSERT_EQ(ndl_memory_buf_zerocopyout(handle, out.data(), 0, 64, -1), 0) << last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(driver.count(124), 1) << "a refusal is remembered";
}

TEST_F(Memory, CopiesABatchWithOneCallAndCheckedRanges) {
  open();
  const uint64_t handle = allocate(4096);
  std::vector<uint8_t> in = pattern(100), out(100);
  const nrt_tensor_batch_op_t ops[] = {{0, 40, in.data()}, {100, 60, in.data() + 40}};
  neuron_memcpy_batch_t batch = {};
  batch.mem_handle = handle;
  batch.mem_handle_offset = 16;
  batch.ops_ptr = ops;
  batch.num_ops = 2;
  ASSERT_EQ(ndl_memory_buf_batch_copy(&batch, 1, 1, -1), 0) << last_error();
  EXPECT_EQ(driver.count(129), 1);
  EXPECT_EQ(batch.mem_handle, handle) << "the caller's array is not changed";
  ASSERT_EQ(ndl_memory_buf_copyout(handle, out.data(), 16, 40), 0);
  ASSERT_EQ(ndl_memory_buf_copyout(handle, out.data() + 40, 116, 60), 0);
  EXPECT_EQ(out, in);
  batch.mem_handle_offset = UINT64_MAX - 50;
  EXPECT_EQ(ndl_memory_buf_batch_copy(&batch, 1, 1, -1), -EINVAL);
  batch.mem_handle_offset = 4000;
  EXPECT_EQ(ndl_memory_buf_batch_copy(&batch, 1, 0, -1), -EINVAL);
  driver.refuses_zero_copy = true;
  batch.mem_handle_offset = 0;
  EXPECT_EQ(ndl_memory_buf_batch_copy(&batch, 1, 1, -1), 0) << last_error();
}

TEST_F(Memory, RefusesACopyBetweenDevices) {
  open();
  ndl_device_t* other = nullptr;
  ASSERT_EQ(ndl_open_device(1, nullptr, &other), 0);
  const uint64_t here = allocate(4096);
  uint64_t there = 0;
  ASSERT_EQ(ndl_memory_alloc(other, 4096, 0, 0, 0, 0, 0, 0, &there), 0);
  EXPECT_EQ(ndl_memory_copy(here, there, 0, 0, 16), -EXDEV);
  EXPECT_EQ(ndl_dma_queue_init(0, 0, 0, 32, 32, here, there, 0, 0), -EXDEV);
  EXPECT_EQ(ndl_close_device(other), 0);
}

TEST_F(Memory, SaysWhichDeviceRanOutAndOfWhat) {
  open();
  uint64_t handle = 0;
  EXPECT_EQ(ndl_memory_alloc(device, 2ull << 30, 0, 0, 0, 0, 0, 0, &handle), -ENOMEM);
  EXPECT_TRUE(says("device 0: allocating memory")) << last_error();
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ndl_memory_alloc(device, 0, 0, 0, 0, 0, 0, 0, &handle), -EINVAL);
  EXPECT_EQ(ndl_memory_alloc(device, 1, 0, 0, 0, 0, 0, 0, nullptr), -EINVAL);
}

TEST_F(Memory, LocksTheStagingBufferOfACoreAndKeepsIt) {
  open();
  ndl_copy_buf_t *first = nullptr, *second = nullptr;
  ASSERT_EQ(ndl_get_copy_buf(device, 1, &first), 0) << last_error();
  EXPECT_EQ(pthread_mutex_trylock(&first->lock), EBUSY);
  std::memset(first->mmap_va, 0xEE, NDL_COPY_BUF_SIZE);
  pthread_mutex_unlock(&first->lock);
  ASSERT_EQ(ndl_get_copy_buf(device, 1, &second), 0);
  EXPECT_EQ(first, second);
  pthread_mutex_unlock(&second->lock);
  EXPECT_EQ(ndl_get_copy_buf(device, MAX_NC_PER_DEVICE, &second), -E2BIG);
}

TEST_F(Memory, PutsDescriptorsIntoRingsAndQueuesOnTheDriversHandles) {
  open();
  const uint64_t tx = allocate(64 * 16), rx = allocate(64 * 16);
  std::vector<uint8_t> descriptors = pattern(32 * 16), out(32 * 16);
  ASSERT_EQ(ndl_dma_copy_descriptors(tx, descriptors.data(), 16, 32, NEURON_DMA_QUEUE_TYPE_TX), 0);
  ASSERT_EQ(ndl_memory_buf_copyout(tx, out.data(), 16, out.size()), 0);
  EXPECT_EQ(out, descriptors);
  ASSERT_EQ(ndl_dma_queue_init(0, 3, 4, 64, 64, tx, rx, 0, 0), 0) << last_error();
  ASSERT_EQ(driver.queues.size(), 1u);
  EXPECT_EQ(driver.queues[0].eng_id, 3u);
  EXPECT_EQ(driver.chunks.count(driver.queues[0].rx_handle), 1u);
  EXPECT_EQ(ndl_dma_queue_init(0, 3, 4, 4096, 64, tx, rx, 0, 0), -EINVAL)
      << "more descriptors than the ring has room for";
  auto batch = std::make_unique<ndl_queue_init_batch>();
  batch->count = 2;
  batch->entries[0] = {0, 1, 64, 64, tx, rx, 0, 0};
  batch->entries[1] = {0, 2, 64, 0, tx, 0, 0, 0};
  ASSERT_EQ(ndl_dma_queue_init_batch(0, batch.get()), 0);
  EXPECT_EQ(driver.queues.size(), 3u);
  EXPECT_EQ(driver.queues[2].rx_handle, 0u) << "handle 0 is no ring";
  batch->count = MAX_NDL_QUEUE_INIT_BATCH;
  EXPECT_EQ(ndl_dma_queue_init_batch(0, batch.get()), -E2BIG);
}

}  // namespace
}  // namespace neuron::ndl::testing
