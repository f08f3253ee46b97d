// SPDX-License-Identifier: Apache-2.0
// Several threads and sessions at once on the emulated chip.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

class Threads : public ServiceTest {
 protected:
  void SetUp() override { start("trn1.2xlarge", 0, core::create_chip); }

  // Allocates, writes, reads back and frees, through a session of its own. Failures are counted.
  int work(uint32_t seed, int rounds) {
    int failures = 0;
    Session* session = nullptr;
    if (instance_->open(0, O_RDWR, kPid, &session) != 0) return 1;
    for (int i = 0; i < rounds; ++i) {
      const uint32_t hbm = (seed + i) % 2;
      const size_t size = 1 + (seed * 7919 + i * 104729) % 200000;
      __u64 handle = 0;
      neuron_ioctl_mem_alloc_v2_mem_type64 request = {size, 0, 0, hbm, 0, hbm, 9, &handle, 0};
      failures += session->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request) != 0;
      auto bytes = random_bytes(size, seed + i);
      std::vector<uint8_t> back(size);
      neuron_ioctl_mem_buf_copy64 copy = {handle, bytes.data(), size, 0, 1};
      failures += session->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &copy) != 0;
      copy = {handle, back.data(), size, 0, 0};
      failures += session->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &copy) != 0;
      failures += back != bytes;
      neuron_ioctl_mem_free free = {handle};
      // Every third stays for close().
      if (i % 3) failures += session->ioctl(NEURON_IOCTL_MEM_FREE, &free) != 0;
    }
    failures += instance_->close(session) != 0;
    return failures;
  }
};

TEST_F(Threads, CopyAndAllocateIndependently) {
  const uint64_t before[] = {memory().free_bytes(0), memory().free_bytes(1)};
  const uint64_t reserved = instance_->budget().reserved();
  std::vector<int> failures(4);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] { failures[t] = work(t * 1000, 40); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4, 0));
  EXPECT_EQ(memory().free_bytes(0), before[0]);
  EXPECT_EQ(memory().free_bytes(1), before[1]);
  EXPECT_EQ(instance_->budget().reserved(), reserved);
}

TEST_F(Threads, AHandleFreedByOneThreadWhileAnotherCopiesIsEitherLiveOrRefused) {
  for (int round = 0; round < 50; ++round) {
    const uint64_t handle = allocate(256 << 10);
    std::vector<uint8_t> bytes(256 << 10, 1);
    int copied = 1;
    std::thread copier([&] { copied = buffer_copy(handle, bytes.data(), bytes.size(), 0, true); });
    const int freed = free_handle(handle);
    copier.join();
    EXPECT_EQ(freed, 0);
    EXPECT_TRUE(copied == 0 || copied == -EINVAL) << copied;
  }
}

// What is read is a mixture of what was written, and a thread sanitizer has nothing to say.
TEST_F(Threads, OfOneClientMayWriteAndReadTheSameBytesAtOnce) {
  constexpr size_t kBytes = 20001;
  for (const bool host : {true, false}) {
    const uint64_t handle = allocate(kBytes + 3, host);
    std::vector<uint8_t> ones(kBytes, 1), twos(kBytes, 2), found(kBytes);
    ASSERT_EQ(buffer_copy(handle, ones.data(), kBytes, 3, true), 0);
    int failures = 0;
    std::thread writer([&] {
      for (int i = 0; i < 100; ++i) {
        failures +=
            buffer_copy(handle, i % 2 == 0 ? twos.data() : ones.data(), kBytes, 3, true) != 0;
      }
    });
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(buffer_copy(handle, found.data(), kBytes, 3, false), 0);
      EXPECT_EQ(
          std::count(found.begin(), found.end(), 1) + std::count(found.begin(), found.end(), 2),
          static_cast<ptrdiff_t>(kBytes));
    }
    writer.join();
    EXPECT_EQ(failures, 0);
  }
}

TEST_F(Threads, OneOfManyClaimantsGetsACore) {
  std::vector<int> results(8, 1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      Session* session = nullptr;
      instance_->open(0, O_WRONLY, static_cast<int32_t>(1000 + t), &session);
      neuron_ioctl_crwl_nc_map_ext map = {1, 0, 0, 0, {}};
      results[t] = session->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(results.begin(), results.end(), 0), 1);
  EXPECT_EQ(std::count(results.begin(), results.end(), -EBUSY), 7);
}

}  // namespace
}  // namespace neuron::service
