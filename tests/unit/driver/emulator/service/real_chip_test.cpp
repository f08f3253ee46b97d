// SPDX-License-Identifier: Apache-2.0
// The same calls on the emulated chip itself: its rings, firmware, semaphores and state buffer.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

// What differs between the generations in these tests.
struct Generation {
  const char* profile;
  uint64_t semaphores;     // BAR0 offset, of core 0
  uint64_t windows[2];     // device addresses of cores 0 and 1
  const char* copy_queue;  // of core 1
  uint32_t other_hbm;      // one that is not core 0's
};

const Generation kGenerations[] = {
    {"trn1.2xlarge", 0x2700000, {0xFFFC0000000, 0xFFFC4000000}, "DMA engine 33 queue 0", 1},
    {"trn2.3xlarge", 0xD2700000, {0x2000000000, 0x3000000000}, "DMA engine 128 queue 1", 3},
};

class RealChip : public ServiceTest, public ::testing::WithParamInterface<Generation> {
 protected:
  void SetUp() override {
    start(GetParam().profile, 0, core::create_chip);
    ASSERT_NE(session_, nullptr);
  }
  int copy(uint64_t from, uint64_t to, uint64_t size, uint64_t from_offset, uint64_t to_offset) {
    neuron_ioctl_mem_copy64 request = {from, to, size, from_offset, to_offset};
    return session_->ioctl(NEURON_IOCTL_MEM_COPY64, &request);
  }
};

TEST_P(RealChip, BuffersOfAnySizeAndAlignmentSurviveTheWayThroughBothHbms) {
  const uint64_t a = allocate(1 << 20);
  const uint64_t b = allocate(1 << 20, false, 9, GetParam().other_hbm);
  for (size_t size : {1u, 3u, 4u, 4095u, 65535u, 65536u, 65537u, 131072u, 700001u}) {
    auto bytes = random_bytes(size + 3, static_cast<uint32_t>(size));
    ASSERT_EQ(buffer_copy(a, bytes.data() + 3, size, 13, true), 0) << last_error();
    ASSERT_EQ(copy(a, b, size, 13, 1001), 0) << last_error();
    std::vector<uint8_t> back(size + 2, 0xEE);
    ASSERT_EQ(buffer_copy(b, back.data() + 1, size, 1001, false), 0) << last_error();
    EXPECT_TRUE(std::equal(back.begin() + 1, back.end() - 1, bytes.begin() + 3)) << size;
    EXPECT_EQ(back.front(), 0xEE);
    EXPECT_EQ(back.back(), 0xEE);
  }
}

TEST_P(RealChip, TheRingWrapsManyTimes) {
  const uint64_t a = allocate(1 << 20);
  auto bytes = random_bytes(1000, 1);
  for (uint32_t i = 0; i < 20000; ++i) {
    bytes[i % 1000] ^= static_cast<uint8_t>(i);
    ASSERT_EQ(buffer_copy(a, bytes.data(), 1000, 0, true), 0) << last_error();
  }
  std::vector<uint8_t> back(1000);
  ASSERT_EQ(buffer_copy(a, back.data(), 1000, 0, false), 0);
  EXPECT_EQ(back, bytes);
}

TEST_P(RealChip, FillAndHostMemoryWork) {
  const uint64_t device = allocate(1 << 20);
  const uint64_t host = allocate(1 << 20, true, 2);
  neuron_ioctl_memset64 fill = {device, 5, 0xA5, 200001};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEMSET64, &fill), 0) << last_error();
  ASSERT_EQ(copy(device, host, 300000, 0, 0), 0) << last_error();
  std::vector<uint8_t> expected(300000, 0);
  std::fill(expected.begin() + 5, expected.begin() + 200006, 0xA5);
  void* mapped = nullptr;
  ASSERT_EQ(session_->map(1 << 20, 3, info(host).mmap_offset, &mapped), 0);
  EXPECT_EQ(std::memcmp(mapped, expected.data(), expected.size()), 0);
}

TEST_P(RealChip, SemaphoresAreSeenByCallsAndRegisters) {
  neuron_ioctl_semaphore request = {0, 30, 6};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_WRITE, &request), 0);
  ASSERT_EQ(session_->write_register(GetParam().semaphores + 0x1800 + 30 * 4, 2, false), 0);
  request.value = 0;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &request), 0);
  EXPECT_EQ(request.value, 8u);
}

TEST_P(RealChip, BytesReachTheStateBufferAndAHoleIsAnError) {
  std::vector<uint8_t> bytes = random_bytes(4096, 8);
  const uint64_t window = GetParam().windows[1];
  neuron_ioctl_program_engine_nc64 request = {1, window + 3 * NEURON_SBUF_PARTITION_STRIDE,
                                              bytes.data(), bytes.size(), 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request), 0) << last_error();
  request.dst = window + 0x2400000;  // reserved: nothing is there
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request), -EIO);
  EXPECT_THAT(last_error(), HasSubstr(GetParam().copy_queue));
  const uint64_t handle = allocate(4096, false, 9, 1);
  EXPECT_EQ(buffer_copy(handle, bytes.data(), 4096, 0, true), 0) << last_error();
}

TEST_P(RealChip, HardwareCountersAreRegistersAndTheFirmwareTakesMetrics) {
  neuron_ioctl_semaphore semaphore = {0, 40, 77};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_WRITE, &semaphore), 0);
  __u64 address = GetParam().windows[0] + 0x2701000 + 40 * 4;
  __u32 value = 0;
  neuron_ioctl_read_hw_counters counters = {&address, &value, 1};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_READ_HW_COUNTERS, &counters), 0) << last_error();
  EXPECT_EQ(value, 77u);
  counters.count = 101;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_READ_HW_COUNTERS, &counters), -EINVAL);
  counters.count = 0;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_READ_HW_COUNTERS, &counters), -EINVAL);
  uint32_t record[8] = {1, 2, 3};
  neuron_ioctl_post_metric metric = {record, 32};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POST_METRIC, &metric), 0) << last_error();
  metric.data_size = 129;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POST_METRIC, &metric), -E2BIG);
}

TEST_P(RealChip, HardwareCountersAreReadNeitherFromMemoryNorFromOtherChips) {
  const uint64_t window = GetParam().windows[1];
  const uint64_t refused[] = {info(allocate(4096)).pa,
                              info(allocate(4096, false, 9, GetParam().other_hbm)).pa,
                              info(allocate(4096, true, 2)).pa,
                              window,              // the state buffer
                              window + 0x2000000,  // PSUM
                              window + 0x2701002,  // no word
                              ~uint64_t{0}};
  for (const uint64_t address : refused) {
    // None is read if one of them is refused.
    __u64 addresses[2] = {window + 0x2701000, address};
    __u32 values[2] = {0xABCD, 0xABCD};
    neuron_ioctl_read_hw_counters counters = {addresses, values, 2};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_READ_HW_COUNTERS, &counters), -EINVAL)
        << std::hex << address;
    EXPECT_THAT(last_error(), HasSubstr("is no register of this device"));
    EXPECT_EQ(values[0], 0xABCDu);
  }
}

// A register of a core that computes is waited for. The lock of the firmware, which resets need,
// is not held meanwhile: with it taken, counters are read all the same.
TEST_P(RealChip, HardwareCountersKeepNoResetWaiting) {
  std::unique_lock reset(device().firmware_mutex());
  __u64 address = GetParam().windows[0] + 0x2701000;
  __u32 value = 1;
  neuron_ioctl_read_hw_counters counters = {&address, &value, 1};
  auto answer = std::async(std::launch::async, [&] {
    return session_->ioctl(NEURON_IOCTL_READ_HW_COUNTERS, &counters);
  });
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  reset.unlock();
  EXPECT_EQ(answer.get(), 0);
  EXPECT_EQ(value, 0u);
}

TEST_P(RealChip, AResetClearsSemaphoresAndCopiesWorkAfterwards) {
  const uint64_t handle = allocate(4096);
  uint8_t byte = 0x42;
  ASSERT_EQ(buffer_copy(handle, &byte, 1, 0, true), 0);
  neuron_ioctl_semaphore request = {0, 30, 6};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_WRITE, &request), 0);
  neuron_ioctl_device_reset reset = {3, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET, &reset), 0) << last_error();
  neuron_ioctl_device_ready ready = {reset.request_id, 1};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0) << last_error();
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &request), 0);
  EXPECT_EQ(request.value, 0u);
  byte = 0;
  ASSERT_EQ(buffer_copy(handle, &byte, 1, 0, false), 0) << last_error();
  EXPECT_EQ(byte, 0x42);
}

TEST_P(RealChip, AnIdleCoreIsADeadlockAtOnce) {
  uint32_t word = 0;
  EXPECT_EQ(session_->wait(0, &word, 0, ~uint64_t{0}), -EDEADLK);
  EXPECT_FALSE(session_->describe(0).empty());
}

TEST_P(RealChip, AUserRingInHbmMovesBytes) {
  const uint64_t tx = allocate(4096, false, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
  const uint64_t rx = allocate(4096, false, NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
  const uint64_t from = allocate(1 << 20);
  const uint64_t to = allocate(1 << 20);
  auto bytes = random_bytes(100000, 4);
  ASSERT_EQ(buffer_copy(from, bytes.data(), bytes.size(), 0, true), 0);
  neuron_ioctl_dma_queue_init queue = {3, 2, 64, 64, tx, rx, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &queue), 0) << last_error();
  nd_descriptor source[2] = {
      nd_descriptor_source(info(from).pa, 65536, 1, ND_BARRIER_NONE),
      nd_descriptor_source(info(from).pa + 65536, 100000 - 65536, 1, ND_BARRIER_WRITE)};
  nd_descriptor destination[2] = {
      nd_descriptor_destination(info(to).pa, 65536, 1),
      nd_descriptor_destination(info(to).pa + 65536, 100000 - 65536, 1)};
  neuron_ioctl_dma_copy_descriptors64 put = {tx, source, 2, 0, NEURON_DMA_QUEUE_TYPE_TX};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put), 0) << last_error();
  put = {rx, destination, 2, 0, NEURON_DMA_QUEUE_TYPE_RX};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put), 0) << last_error();
  neuron_ioctl_dma_queue_copy_start start = {3, 2, 2, 2};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start), 0) << last_error();
  std::vector<uint8_t> back(bytes.size());
  ASSERT_EQ(buffer_copy(to, back.data(), back.size(), 0, false), 0);
  EXPECT_EQ(back, bytes);
}

INSTANTIATE_TEST_SUITE_P(Generations, RealChip, ::testing::ValuesIn(kGenerations),
                         [](const auto& info) {
                           return std::string(info.param.profile).substr(0, 4);
                         });

// What generation 3 alone has.
class Trn2Device : public ServiceTest {
 protected:
  void SetUp() override {
    start("trn2.3xlarge", 0, core::create_chip);
    ASSERT_NE(session_, nullptr);
  }
  neuron_ioctl_resource_mmap_info resource(uint32_t block, uint32_t id, uint32_t resource) {
    neuron_ioctl_resource_mmap_info info = {};
    info.block = block;
    info.block_id = id;
    info.resource = resource;
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info), 0) << last_error();
    return info;
  }
};

TEST_F(Trn2Device, SaysWhatItIs) {
  neuron_ioctl_device_info info = {};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  EXPECT_EQ(info.architecture, 3u);
  EXPECT_EQ(info.bar_size[0], uint64_t{1} << 32);
  neuron_ioctl_compatible_version version = {};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_COMPATIBLE_VERSION, &version), 0);
  EXPECT_EQ(version.min, 10u);
  EXPECT_EQ(version.max, 11u);
}

TEST_F(Trn2Device, HandsAPowerProfileToItsFirmware) {
  neuron_ioctl_power_profile power = {sizeof(power), 0, 2};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POWER_PROFILE, &power), 0) << last_error();
  power.ctrl = 1;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POWER_PROFILE, &power), -524);
}

TEST_F(Trn2Device, MapsLogicalCoresByThePlaceOfTheDeviceInItsTorus) {
  std::array<uint32_t, 1 + 2 * 128> words{};
  neuron_ioctl_get_logical_to_physical_nc_map request = {};
  request.map = reinterpret_cast<neuron_ioctl_nc_map*>(words.data());
  request.max_map_entries = 128;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request), 0);
  const auto cores_of = [&](uint32_t device) {
    std::vector<uint32_t> cores;
    for (uint32_t core = 0; core < 8; ++core) {
      EXPECT_EQ(request.map->mappings[8 * device + core].device_id, device);
      cores.push_back(request.map->mappings[8 * device + core].device_nc_idx);
    }
    return cores;
  };
  for (const uint32_t device : {0u, 2u, 8u, 10u}) {
    EXPECT_EQ(cores_of(device), (std::vector<uint32_t>{4, 5, 6, 7, 2, 3, 0, 1})) << device;
  }
  for (const uint32_t device : {1u, 3u, 9u, 11u}) {
    EXPECT_EQ(cores_of(device), (std::vector<uint32_t>{2, 3, 0, 1, 4, 5, 6, 7})) << device;
  }
  for (const uint32_t device : {4u, 6u, 12u, 14u}) {
    EXPECT_EQ(cores_of(device), (std::vector<uint32_t>{0, 1, 2, 3, 6, 7, 4, 5})) << device;
  }
  for (const uint32_t device : {5u, 7u, 13u, 15u}) {
    EXPECT_EQ(cores_of(device), (std::vector<uint32_t>{6, 7, 4, 5, 0, 1, 2, 3})) << device;
  }
  request.max_map_entries = 129;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request), -EINVAL);
}

TEST_F(Trn2Device, NamesItsResourcesByTheCookiesOfThePublicDriver) {
  EXPECT_EQ(resource(NEURON_DM_BLOCK_TPB, 7, NEURON_DM_RESOURCE_SEMAPHORE).offset, 0x201E700000u);
  EXPECT_EQ(resource(NEURON_DM_BLOCK_TPB, 1, NEURON_DM_RESOURCE_SBUF).offset, 0x2004000000u);
  EXPECT_EQ(resource(NEURON_DM_BLOCK_TOPSP, 9, NEURON_DM_RESOURCE_ALL).offset, 0x8082C0000000u);
  const auto hbm = resource(NEURON_DM_BLOCK_HBM, 3, NEURON_DM_RESOURCE_DMEM);
  EXPECT_EQ(hbm.offset, 0x804000000000u);
  EXPECT_EQ(hbm.size, uint64_t{24} << 30);
  void* mapped = nullptr;
  ASSERT_EQ(session_->map(hbm.size, 3, hbm.offset, &mapped), 0) << last_error();
  EXPECT_EQ(mapped, device().chip().hbm().direct(hbm.offset, hbm.size));
  EXPECT_EQ(session_->map(0x2000, 3, 0x201E700000, &mapped), -ENOTSUP);
}

TEST_F(Trn2Device, CopiesThroughTheQueueOfEachCoreAndKeepsThatOfTheOtherInAReset) {
  for (uint32_t hbm = 0; hbm < 4; ++hbm) {
    const uint64_t handle = allocate(8192, false, 9, hbm);
    auto bytes = random_bytes(8192, hbm);
    ASSERT_EQ(buffer_copy(handle, bytes.data(), bytes.size(), 0, true), 0) << last_error();
    std::vector<uint8_t> back(bytes.size());
    ASSERT_EQ(buffer_copy(handle, back.data(), back.size(), 0, false), 0) << last_error();
    EXPECT_EQ(back, bytes);
    EXPECT_EQ(info(handle).pa & ~0xFFFFFFFFFull, nd_chip_hbm_base(&nd_chip_v3, hbm));
  }
  EXPECT_EQ(device().ring(5).engine(), 130u);
  EXPECT_EQ(device().ring(5).queue(), 1u);
  auto bytes = random_bytes(512, 9);
  std::vector<uint8_t> back(bytes.size());
  const uint64_t window = nd_chip_core_address(&nd_chip_v3, 5);
  ASSERT_EQ(device().reset(1u << 4), 0) << last_error();
  ASSERT_EQ(device().ring(5).write(window, bytes.data(), bytes.size()), 0) << last_error();
  ASSERT_EQ(device().ring(4).read(back.data(), window, back.size()), 0) << last_error();
  EXPECT_EQ(back, bytes);
}

}  // namespace
}  // namespace neuron::service
