// SPDX-License-Identifier: Apache-2.0
// Calls of a process that is gone: each of them would take many seconds, and ends in less than one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "hw/address_map.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using Clock = std::chrono::steady_clock;

class Abandoned : public ServiceTest {
 protected:
  void SetUp() override {
    start("trn1.2xlarge", 0, core::create_chip);
    ASSERT_NE(session_, nullptr);
  }
  // Seconds from the end of the process until its call and its session have ended.
  template <typename Call>
  double seconds_until_free(Call call) {
    int result = 0;
    std::thread caller([&] { result = call(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto start = Clock::now();
    session_->abandon();
    caller.join();
    result_ = result;
    EXPECT_EQ(instance_->close(session_), 0);
    session_ = open(0, O_RDWR, kPid);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  // The neighbours of the one that is gone.
  void expect_copies_work() {
    const uint64_t handle = allocate(1 << 20);
    auto bytes = random_bytes(1 << 20, 5);
    std::vector<uint8_t> back(bytes.size());
    EXPECT_EQ(buffer_copy(handle, bytes.data(), bytes.size(), 0, true), 0) << last_error();
    EXPECT_EQ(buffer_copy(handle, back.data(), back.size(), 0, false), 0) << last_error();
    EXPECT_EQ(back, bytes);
  }

  int result_ = 0;
};

TEST_F(Abandoned, ARingOfAMillionDescriptorsEndsInLessThanASecond) {
  constexpr uint32_t kCount = 1 << 20;
  const uint64_t tx = allocate(kCount * NEURON_DESC_BYTES, true, 17);
  const uint64_t rx = allocate(kCount * NEURON_DESC_BYTES, true, 17);
  const uint64_t from = allocate(1 << 20);
  const uint64_t to = allocate(1 << 20);
  neuron_ioctl_dma_queue_init init = {3, 2, kCount, kCount, tx, rx, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &init), 0) << last_error();
  void *source = nullptr, *destination = nullptr;
  ASSERT_EQ(session_->map(info(tx).size, 3, info(tx).pa, &source), 0) << last_error();
  ASSERT_EQ(session_->map(info(rx).size, 3, info(rx).pa, &destination), 0) << last_error();
  const uint64_t a = info(from).pa, b = info(to).pa;
  for (uint32_t i = 0; i < kCount; ++i) {
    static_cast<nd_descriptor *>(source)[i] = nd_descriptor_source(a, 65536, 1, ND_BARRIER_NONE);
    static_cast<nd_descriptor *>(destination)[i] = nd_descriptor_destination(b, 65536, 1);
  }
  EXPECT_LT(seconds_until_free([&] {
              neuron_ioctl_dma_queue_copy_start start = {3, 2, kCount - 1, kCount - 1};
              return session_->ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start);
            }),
            1);
  expect_copies_work();
}

TEST_F(Abandoned, ManyCopiesInOneCallEndInLessThanASecond) {
  constexpr uint64_t kBytes = 64 << 20;
  const uint64_t handle = allocate(kBytes);
  std::vector<uint8_t> buffer(kBytes, 1);
  std::vector<nrt_tensor_batch_op_t> operations(4096, {0, kBytes, buffer.data()});
  neuron_memcpy_batch_t batch = {};
  batch.mem_handle = handle;
  batch.ops_ptr = operations.data();
  batch.num_ops = static_cast<uint32_t>(operations.size());
  neuron_ioctl_mem_buf_copy64zc_batches copies = {};
  copies.batches_ptr = &batch;
  copies.num_batches = 1;
  copies.is_copy_to_device = 1;
  copies.h2t_qid = NEURON_DMA_H2T_DEFAULT_QID;
  EXPECT_LT(seconds_until_free(
                [&] { return session_->ioctl(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &copies); }),
            1);
  EXPECT_EQ(result_, -ECANCELED);
  expect_copies_work();
}

}  // namespace
}  // namespace neuron::service
