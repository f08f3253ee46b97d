// SPDX-License-Identifier: Apache-2.0
// DMA queues that user space sets up, fills and starts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/emulator/service/error.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

class QueueCalls : public ServiceTest {
 protected:
  int init(uint32_t engine, uint32_t queue, uint32_t count, uint64_t tx, uint64_t rx) {
    neuron_ioctl_dma_queue_init request = {engine, queue, count, count, tx, rx, 0, 0};
    return session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &request);
  }
  int start(uint32_t engine, uint32_t queue, uint32_t tx, uint32_t rx) {
    neuron_ioctl_dma_queue_copy_start request = {engine, queue, tx, rx};
    return session_->ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &request);
  }
  int put(uint64_t ring, const nd_descriptor* descriptors, uint32_t count, uint64_t offset,
          neuron_dma_queue_type type) {
    neuron_ioctl_dma_copy_descriptors64 request = {ring, const_cast<nd_descriptor*>(descriptors),
                                                   count, offset, type};
    return session_->ioctl(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &request);
  }
};

TEST_F(QueueCalls, AUserRingMovesBytesWhenItIsStarted) {
  const uint64_t tx = allocate(4096, true, NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST);
  const uint64_t rx = allocate(4096, false, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
  const uint64_t from = allocate(4096, true, 2);
  const uint64_t to = allocate(4096);
  auto bytes = random_bytes(4096, 11);
  ASSERT_EQ(buffer_copy(from, bytes.data(), 4096, 0, true), 0);
  ASSERT_EQ(init(3, 2, 64, tx, rx), 0) << last_error();
  const nd_descriptor source = nd_descriptor_source(info(from).pa, 4096, 1, ND_BARRIER_NONE);
  const nd_descriptor destination = nd_descriptor_destination(info(to).pa, 4096, 1);
  ASSERT_EQ(put(tx, &source, 1, 0, NEURON_DMA_QUEUE_TYPE_TX), 0) << last_error();
  ASSERT_EQ(put(rx, &destination, 1, 0, NEURON_DMA_QUEUE_TYPE_RX), 0) << last_error();
  ASSERT_EQ(start(3, 2, 1, 1), 0) << last_error();
  std::vector<uint8_t> read(4096);
  ASSERT_EQ(buffer_copy(to, read.data(), 4096, 0, false), 0);
  EXPECT_EQ(read, bytes);

  nd_descriptor back = {};
  neuron_ioctl_dma_descriptor_copyout out = {3, 2, NEURON_DMA_QUEUE_TYPE_RX, 0, 1, &back};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &out), 0) << last_error();
  EXPECT_EQ(back.address, destination.address);
  out.start_index = 63;
  out.count = 2;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &out), -EFBIG);
}

TEST_F(QueueCalls, RingsThatAnEngineCannotUseAreRefused) {
  const uint64_t ring = allocate(4096, true, 17);
  EXPECT_EQ(init(34, 0, 64, ring, ring), -EINVAL);
  EXPECT_EQ(init(0, 16, 64, ring, ring), -EINVAL);
  EXPECT_EQ(init(0, 0, 16, ring, ring), -EINVAL);
  EXPECT_EQ(init(0, 0, 40, ring, ring), -EINVAL);
  EXPECT_EQ(init(0, 0, 512, ring, ring), -EINVAL);  // larger than its memory
  EXPECT_EQ(init(32, 0, 64, ring, ring), -EALREADY);
  EXPECT_THAT(last_error(), HasSubstr("host's copies"));
  neuron_ioctl_dma_queue_init completion = {0, 0, 64, 64, ring, ring, ring, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &completion), -EINVAL);
  EXPECT_EQ(init(0, 0, 256, ring, ring), 0) << last_error();
}

TEST_F(QueueCalls, AStartWithoutRingsIsAnErrorAndNotACrash) {
  EXPECT_EQ(start(0, 0, 1, 1), -EINVAL);
  const uint64_t ring = allocate(4096, true, 17);
  ASSERT_EQ(init(0, 0, 64, ring, 0), 0);
  EXPECT_EQ(start(0, 0, 1, 1), -EINVAL);
  ASSERT_EQ(init(0, 0, 64, ring, ring), 0);
  EXPECT_EQ(start(0, 0, 65, 1), -EPERM);
  EXPECT_EQ(start(0, 99, 1, 1), -EINVAL);
}

TEST_F(QueueCalls, DescriptorsMayOnlyPointToHostMemoryOfTheDevice) {
  const uint64_t ring = allocate(4096, true, 17);
  nd_descriptor wild =
      nd_descriptor_source(NEURON_V2_HOST_BASE | 0x0F0000000000, 64, 1, ND_BARRIER_NONE);
  EXPECT_EQ(put(ring, &wild, 1, 0, NEURON_DMA_QUEUE_TYPE_TX), -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("descriptor 0 points to 64 bytes of host memory at"));
  wild.address = 0x123456789;  // device addresses are the engine's to judge
  EXPECT_EQ(put(ring, &wild, 1, 0, NEURON_DMA_QUEUE_TYPE_TX), 0);
  EXPECT_EQ(put(ring, &wild, 1, 4096, NEURON_DMA_QUEUE_TYPE_TX), -EINVAL);
  EXPECT_EQ(put(ring, &wild, 1, 0, NEURON_DMA_QUEUE_TYPE_COMPLETION), -EPERM);
}

// As the kernel module looks at them.
TEST_F(QueueCalls, AllBytesOfADescriptorAreOfOneAllocationAndMetadataIsNoAddress) {
  const uint64_t ring = allocate(4096, true, 17);
  const uint64_t memory = info(allocate(4096, true, 2)).pa;
  const auto put_one = [&](uint64_t address, uint32_t length) {
    const nd_descriptor source = nd_descriptor_source(address, length, 1, ND_BARRIER_NONE);
    return put(ring, &source, 1, 0, NEURON_DMA_QUEUE_TYPE_TX);
  };
  EXPECT_EQ(put_one(memory, 4096), 0) << last_error();
  EXPECT_EQ(put_one(memory + 4095, 1), 0) << last_error();
  EXPECT_EQ(put_one(memory + 4095, 2), -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("descriptor 0 points to 2 bytes of host memory at"));
  EXPECT_EQ(put_one(memory, 65536), -EINVAL);
  // The last byte is the host's, the first one the device's.
  EXPECT_EQ(put_one(NEURON_V2_HOST_BASE - 1, 2), -EINVAL);

  nd_descriptor metadata =
      nd_descriptor_source(NEURON_V2_HOST_BASE | 0x0F0000000000, 64, 1, ND_BARRIER_NONE);
  metadata.control |= NEURON_DESC_META;
  EXPECT_EQ(put(ring, &metadata, 1, 0, NEURON_DMA_QUEUE_TYPE_TX), 0) << last_error();
}

TEST_F(QueueCalls, ABatchStopsAtTheFirstBadEntry) {
  const uint64_t ring = allocate(4096, true, 17);
  auto batch = std::make_unique<neuron_ioctl_dma_queue_init_batch>();
  std::memset(batch.get(), 0, sizeof(*batch));
  batch->count = 256;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, batch.get()), -E2BIG);
  batch->count = 3;
  for (uint32_t i = 0; i < 3; ++i) batch->entries[i] = {i, 1, 64, 64, ring, ring, 0, 0};
  batch->entries[1].tx_desc_count = 1;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, batch.get()), -EINVAL);
  EXPECT_EQ(device().queues[0][1].tx.count, 64u);
  EXPECT_EQ(device().queues[2][1].tx.count, 0u);
}

TEST_F(QueueCalls, StateShowsWhatTheRegistersHold) {
  const uint64_t ring = allocate(4096, true, 17);
  ASSERT_EQ(init(5, 4, 96, ring, ring), 0);
  neuron_dma_queue_state tx = {};
  neuron_dma_queue_state rx = {};
  neuron_ioctl_dma_queue_get_state request = {5, 4, &tx, &rx};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &request), 0);
  EXPECT_EQ(tx.base_addr, info(ring).pa);
  EXPECT_EQ(rx.length, 96u);
  neuron_dma_eng_state engine = {};
  neuron_ioctl_dma_eng_get_state state = {5, &engine};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_ENG_GET_STATE, &state), 0);
  EXPECT_EQ(engine.max_queues, 16u);
  EXPECT_EQ(engine.tx_state, 2u);
  neuron_ioctl_dma_ack_completed ack = {5, 4, 100};  // no power of two, and more than the ring
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_ACK_COMPLETED, &ack), 0);
  EXPECT_EQ(device().queues[5][4].tx_completed, 4u);
}

TEST_F(QueueCalls, AQueueOfAProcessThatLivesIsNoOthers) {
  const Client one = {301, 1000, 1}, other = {302, 1000, 2};
  Session *first = nullptr, *same = nullptr, *second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, one, &first), 0) << last_error();
  ASSERT_EQ(instance_->open(0, O_RDWR, one, &same), 0) << last_error();
  ASSERT_EQ(instance_->open(0, O_RDWR, other, &second), 0) << last_error();
  const uint64_t rings[2] = {allocate(4096, true, 17, 0, first),
                             allocate(4096, true, 17, 0, second)};
  neuron_ioctl_dma_queue_init mine = {7, 3, 64, 64, rings[0], rings[0], 0, 0};
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &mine), 0) << last_error();
  ASSERT_EQ(same->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &mine), 0) << last_error();
  neuron_ioctl_dma_queue_init theirs = {7, 3, 64, 64, rings[1], rings[1], 0, 0};
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &theirs), -EBUSY);
  EXPECT_THAT(last_error(), HasSubstr("engine 7 queue 3 is set up by pid 301"));
  auto batch = std::make_unique<neuron_ioctl_dma_queue_init_batch>();
  std::memset(batch.get(), 0, sizeof(*batch));
  batch->count = 1;
  batch->entries[0] = theirs;
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, batch.get()), -EBUSY);
  // Nor does it take the rings away, start them, or say that it has seen what they have done.
  neuron_ioctl_dma_queue_init nothing = {7, 3, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &nothing), -EBUSY);
  neuron_ioctl_dma_queue_copy_start start = {7, 3, 1, 1};
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start), -EBUSY);
  neuron_ioctl_dma_ack_completed seen = {7, 3, 1};
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_ACK_COMPLETED, &seen), -EBUSY);
  // Nor does it stop the whole engine, which any process may start.
  for (const uint32_t state : {0u, 3u}) {
    neuron_ioctl_dma_eng_set_state stop = {7, state};
    EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &stop), -EBUSY) << state;
    EXPECT_EQ(first->ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &stop), 0) << last_error();
  }
  neuron_ioctl_dma_eng_set_state go = {7, 2};
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &go), 0) << last_error();
  neuron_ioctl_dma_queue_release release = {};
  release.eng_id = 7;
  release.qid = 3;
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_QUEUE_RELEASE, &release), 0);
  EXPECT_EQ(device().queues[7][3].tx.count, 64u);
  EXPECT_EQ(device().queues[7][3].tx_completed, 0u);
  EXPECT_EQ(behaviour_.ring_id_errors, 0u);
  // When the process has gone, it is free.
  ASSERT_EQ(instance_->close(first), 0);
  ASSERT_EQ(instance_->close(same), 0);
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &theirs), 0) << last_error();
}

TEST_F(QueueCalls, ClosingPointsTheQueuesOfTheSessionAtAnEmptyRing) {
  Session* other = open(0, O_RDWR, 200);
  const uint64_t ring = allocate(4096, true, 17, 0, other);
  const uint64_t address = info(ring).pa;
  neuron_ioctl_dma_queue_init request = {7, 3, 64, 64, ring, ring, 0, 0};
  ASSERT_EQ(other->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &request), 0);
  behaviour_.record = true;
  ASSERT_EQ(instance_->close(other), 0);
  const uint64_t reset = nd_queue_register(&nd_chip_v2, 7, 3, true, NEURON_UDMAQ_M2S_SW_CONTROL);
  EXPECT_THAT(behaviour_.writes, ::testing::Contains(reset));
  neuron_dma_queue_state tx = {};
  neuron_dma_queue_state rx = {};
  neuron_ioctl_dma_queue_get_state state = {7, 3, &tx, &rx};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &state), 0);
  EXPECT_NE(tx.base_addr, address);
  EXPECT_EQ(tx.length, 64u);
  EXPECT_EQ(start(7, 3, 1, 1), -EINVAL);
}

}  // namespace
}  // namespace neuron::service
