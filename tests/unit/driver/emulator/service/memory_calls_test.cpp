// SPDX-License-Identifier: Apache-2.0
// Allocation, information and release of memory through the calls of /dev/neuronN.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "driver/emulator/service/error.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

using MemoryCalls = ServiceTest;

TEST_F(MemoryCalls, HandlesAreSmallAndTheLastFreedComesBackFirst) {
  const uint64_t first = allocate(4096);
  const uint64_t second = allocate(4096);
  EXPECT_GE(first, 1u);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(free_handle(first), 0);
  EXPECT_EQ(free_handle(second), 0);
  EXPECT_EQ(allocate(4096), second);
  EXPECT_EQ(allocate(4096), first);
}

TEST_F(MemoryCalls, LargeAllocationsBeginBehindTheFirmwareAndSmallOnesInTheLastGiB) {
  EXPECT_EQ(info(allocate(1 << 20)).pa, NEURON_V2_HBM_CARVE_OUT);
  EXPECT_EQ(info(allocate(512 << 10)).pa, NEURON_V2_HBM_SIZE - (uint64_t{1} << 30));
  EXPECT_EQ(info(allocate(1 << 20, false, 9, 1)).pa,
            NEURON_V2_HBM_STRIDE + NEURON_V2_HBM_CARVE_OUT);
}

TEST_F(MemoryCalls, EveryFormOfAllocationAnswersWithAHandle) {
  __u64 handle = 0;
  neuron_ioctl_mem_alloc a = {8192, 0, 0, 0, 0, &handle};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC, &a), 0) << last_error();
  EXPECT_EQ(info(handle).size, 8192u);
  neuron_ioctl_mem_alloc_v2 b = {1, 65536, 0, 1, 0, 1, &handle};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2, &b), 0) << last_error();
  EXPECT_EQ(info(handle).size, 4096u);
  EXPECT_EQ(info(handle).pa % 65536, 0u);
  neuron_ioctl_mem_alloc_v2_mem_type c = {100, 0, 1, 0, 0, 0, 2, &handle};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT, &c), 0) << last_error();
  EXPECT_EQ(info(handle).host_memory, 1u);
  EXPECT_EQ(info(handle).pid, static_cast<uint64_t>(kPid));
  EXPECT_NE(info(handle).pa & NEURON_V2_HOST_BASE, 0u);
}

TEST_F(MemoryCalls, RefusesWhatCannotBeAllocatedAndSaysWhy) {
  const auto attempt = [&](uint64_t size, uint64_t align, uint32_t host, uint32_t hbm,
                           uint32_t region, uint32_t core) {
    __u64 handle = 0;
    neuron_ioctl_mem_alloc_v2_mem_type64 r = {size, align, host, hbm, region, core, 9, &handle, 0};
    return session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &r);
  };
  EXPECT_EQ(attempt(0, 0, 0, 0, 0, 0), -EINVAL);
  EXPECT_EQ(attempt(uint64_t{1} << 63, 0, 0, 0, 0, 0), -EINVAL);
  EXPECT_EQ(attempt(4096, 0, 0, 2, 0, 0), -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("HBM 0 to 1, found 2"));
  EXPECT_EQ(attempt(4096, 0, 0, 0, 1, 0), -EINVAL);
  EXPECT_EQ(attempt(4096, 0, 0, 0, 0, 2), -EINVAL);
  EXPECT_EQ(attempt(4096, 4096, 1, 0, 0, 0), -EINVAL);
  EXPECT_EQ(attempt(4096, 3 << 12, 0, 0, 0, 0), -EINVAL);
  EXPECT_EQ(attempt(4096, uint64_t{1} << 32, 0, 0, 0, 0), -EINVAL);
  EXPECT_EQ(attempt(uint64_t{64} << 30, 0, 0, 0, 0, 0), -ENOMEM);
  EXPECT_THAT(last_error(), HasSubstr("largest block is"));
  neuron_ioctl_mem_alloc_v2_mem_type64 no_room = {4096, 0, 0, 0, 0, 0, 9, nullptr, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &no_room), -EACCES);
}

TEST_F(MemoryCalls, StaleAndForeignHandlesAreRefusedEverywhere) {
  const uint64_t handle = allocate(4096);
  ASSERT_EQ(free_handle(handle), 0);
  char byte = 0;
  for (uint64_t bad : {handle, uint64_t{0}, uint64_t{4194303}, ~uint64_t{0}}) {
    EXPECT_EQ(free_handle(bad), -EINVAL) << bad;
    EXPECT_EQ(buffer_copy(bad, &byte, 1, 0, true), -EINVAL);
    neuron_ioctl_memset64 fill = {bad, 0, 0, 1};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEMSET64, &fill), -EINVAL);
    neuron_ioctl_mem_get_extended_info request = {};
    request.mem_handle = bad;
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &request), -EINVAL);
    neuron_ioctl_dma_queue_init queue = {0, 0, 32, 32, bad, bad, 0, 0};
    if (bad) {
      EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &queue), -EINVAL);
    }
  }
  EXPECT_THAT(last_error(), HasSubstr("not live"));
}

TEST_F(MemoryCalls, ClosingASessionGivesBackAllThatItHeld) {
  const uint64_t before[] = {memory().free_bytes(0), memory().free_bytes(1)};
  const uint64_t host_before = instance_->arena().used_bytes();
  const uint64_t reserved_before = instance_->budget().reserved();
  Session* other = open(0, O_RDWR, 200);
  for (int i = 0; i < 50; ++i) {
    allocate(uint64_t{4096} << (i % 12), false, 9, i % 2, other);
    allocate(8192, true, 2, 0, other);
  }
  EXPECT_LT(memory().free_bytes(0), before[0]);
  const uint64_t mine = allocate(4096);
  ASSERT_EQ(instance_->close(other), 0);
  EXPECT_EQ(info(mine).size, 4096u);
  ASSERT_EQ(free_handle(mine), 0);
  EXPECT_EQ(memory().free_bytes(0), before[0]);
  EXPECT_EQ(memory().free_bytes(1), before[1]);
  EXPECT_EQ(instance_->arena().used_bytes(), host_before);
  EXPECT_EQ(instance_->budget().reserved(), reserved_before);
}

TEST_F(MemoryCalls, FreedMemoryGoesBackToTheHostAndReadsAsZeros) {
  const uint64_t handle = allocate(4 << 20);
  const auto bytes = random_bytes(4 << 20, 1);
  ASSERT_EQ(buffer_copy(handle, const_cast<uint8_t*>(bytes.data()), bytes.size(), 0, true), 0);
  const uint64_t resident = device().chip().hbm().resident_bytes();
  ASSERT_EQ(free_handle(handle), 0);
  EXPECT_LE(device().chip().hbm().resident_bytes() + (3 << 20), resident);
  const uint64_t again = allocate(4 << 20);
  std::vector<uint8_t> read(4 << 20, 1);
  ASSERT_EQ(buffer_copy(again, read.data(), read.size(), 0, false), 0);
  EXPECT_EQ(read, std::vector<uint8_t>(4 << 20, 0));
}

TEST_F(MemoryCalls, AFullHbmIsReportedAndUsableAgainAfterAFree) {
  instance_.reset();
  behaviour_.hbm_bytes = uint64_t{1} << 30;
  start("trn1.2xlarge", 0);
  std::vector<uint64_t> handles;
  for (int i = 0; i < 9; ++i) handles.push_back(allocate(uint64_t{110} << 20));
  __u64 handle = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 more = {uint64_t{220} << 20, 0, 0, 0, 0, 0, 9, &handle, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &more), -ENOMEM);
  EXPECT_EQ(memory().largest_free(0), uint64_t{18} << 20);
  ASSERT_EQ(free_handle(handles[3]), 0);
  ASSERT_EQ(free_handle(handles[4]), 0);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &more), 0) << last_error();
}

TEST_F(MemoryCalls, AScrubAmongProcessesFillsWhatTheCallerHasAndNothingElse) {
  instance_.reset();
  behaviour_.hbm_bytes = uint64_t{256} << 20;
  start("trn1.2xlarge", uint64_t{64} << 20);
  instance_->files().allow(100);
  Session* sessions[2] = {};
  __u64 handles[2] = {};
  for (int i = 0; i < 2; ++i) {
    const Client client = {301 + i, 1000, static_cast<uint64_t>(i) + 1};
    ASSERT_EQ(instance_->open(0, O_RDWR, client, &sessions[i]), 0) << last_error();
    neuron_ioctl_mem_alloc_v2_mem_type64 request = {1 << 20, 0, 0, 0, 0, 0, 9, &handles[i], 0};
    ASSERT_EQ(sessions[i]->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request), 0) << last_error();
  }
  const auto first_word = [&](int i) {
    uint32_t word = 0;
    neuron_ioctl_mem_buf_copy64 copy = {};
    copy.mem_handle = handles[i];
    copy.buffer = &word;
    copy.size = sizeof(word);
    EXPECT_EQ(sessions[i]->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &copy), 0) << last_error();
    return word;
  };
  neuron_ioctl_hbm_scrub_start scrub = {};
  scrub.init_val = 0x12345678;
  ASSERT_EQ(sessions[0]->ioctl(NEURON_IOCTL_HBM_SCRUB_START, &scrub), 0) << last_error();
  EXPECT_EQ(first_word(0), 0x12345678u);
  EXPECT_EQ(first_word(1), 0u);
  // And none of what nobody has is resident.
  EXPECT_LT(device().chip().hbm().resident_bytes(), uint64_t{64} << 20);
}

TEST_F(MemoryCalls, PagesThatNobodyHasAllocatedGoBackAndWhatIsAllocatedStays) {
  instance_.reset();
  behaviour_.hbm_bytes = uint64_t{512} << 20;
  start("trn1.2xlarge", 0);
  instance_->files().allow(100);
  Session* session = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, Client{301, 1000, 1}, &session), 0) << last_error();
  __u64 handle = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 request = {1 << 20, 0, 0, 0, 0, 0, 9, &handle, 0};
  ASSERT_EQ(session->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request), 0) << last_error();
  neuron_ioctl_memset64 fill = {handle, 0, 0x77, 1 << 20};
  ASSERT_EQ(session->ioctl(NEURON_IOCTL_MEMSET64, &fill), 0) << last_error();
  chip::Hbm& hbm = device().chip().hbm();
  const uint64_t before = hbm.resident_bytes();
  // What a transfer of a program to such addresses does.
  const auto touch = [&](uint64_t first, uint64_t bytes) {
    std::memset(hbm.direct(first, bytes), 1, bytes);
  };
  constexpr uint64_t kFirst = uint64_t{128} << 20, kMost = uint64_t{64} << 20;
  touch(kFirst, kMost / 2);
  memory().drop_stray_pages(kMost);
  EXPECT_GE(hbm.resident_bytes(), before + kMost / 2);  // a few are nobody's concern
  touch(kFirst, kMost + (1 << 20));
  memory().drop_stray_pages(kMost);
  EXPECT_LE(hbm.resident_bytes(), before);
  std::vector<uint8_t> back(1 << 20);
  neuron_ioctl_mem_buf_copy64 copy = {};
  copy.mem_handle = handle;
  copy.buffer = back.data();
  copy.size = back.size();
  ASSERT_EQ(session->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &copy), 0) << last_error();
  EXPECT_EQ(back, std::vector<uint8_t>(1 << 20, 0x77));
}

TEST_F(MemoryCalls, AScrubThatNobodyWaitsForHoldsUpNobodyElseAndEndsWithItsProcess) {
  const Client one = {301, 1000, 1}, again = {301, 1000, 2}, other = {302, 1000, 3};
  Session* first = nullptr;
  Session* second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, one, &first), 0) << last_error();
  ASSERT_EQ(instance_->open(0, O_RDWR, other, &second), 0) << last_error();
  neuron_ioctl_hbm_scrub_start scrub = {};
  neuron_ioctl_hbm_scrub_wait wait = {};
  ASSERT_EQ(first->ioctl(NEURON_IOCTL_HBM_SCRUB_START, &scrub), 0) << last_error();
  EXPECT_EQ(first->ioctl(NEURON_IOCTL_HBM_SCRUB_START, &scrub), -EPERM);
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_HBM_SCRUB_WAIT, &wait), -EPERM);
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_HBM_SCRUB_START, &scrub), 0) << last_error();
  EXPECT_EQ(second->ioctl(NEURON_IOCTL_HBM_SCRUB_WAIT, &wait), 0) << last_error();
  ASSERT_EQ(instance_->close(first), 0);
  ASSERT_EQ(instance_->open(0, O_RDWR, again, &first), 0) << last_error();
  EXPECT_EQ(first->ioctl(NEURON_IOCTL_HBM_SCRUB_WAIT, &wait), -EPERM);
  EXPECT_EQ(first->ioctl(NEURON_IOCTL_HBM_SCRUB_START, &scrub), 0) << last_error();
}

TEST_F(MemoryCalls, HandlesAreLeftForOtherUsersHoweverManyOneTakes) {
  memory().allow_handles(64);
  const auto take_all = [&](int32_t pid, uint32_t user) {
    Session* session = nullptr;
    const Client client = {pid, user, static_cast<uint64_t>(pid)};
    EXPECT_EQ(instance_->open(0, O_RDWR, client, &session), 0) << last_error();
    int taken = 0;
    for (int error = 0; taken < 100; ++taken) {
      __u64 handle = 0;
      neuron_ioctl_mem_alloc_v2_mem_type64 request = {4096, 0, 0, 0, 0, 0, 9, &handle, 0};
      error = session->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request);
      if (error == 0) continue;
      EXPECT_EQ(error, -ENOENT);
      EXPECT_THAT(last_error(), HasSubstr("the rest is for others; free some"));
      break;
    }
    return taken;
  };
  // However many processes a user has.
  int of_one = 0;
  for (int32_t pid = 301; pid < 306; ++pid) of_one += take_all(pid, 1000);
  EXPECT_GE(of_one, 24);
  EXPECT_LE(of_one, 32);
  EXPECT_GE(take_all(401, 1001), 8);
  EXPECT_GE(take_all(501, 1002), 4);
  // The process that the devices are in has no share.
  for (int i = 0; i < 100; ++i) EXPECT_NE(allocate(4096), 0u);
}

TEST_F(MemoryCalls, HandlesThatAProcessHadAreItsUsersAgain) {
  memory().allow_handles(16);
  for (int32_t round = 0; round < 4; ++round) {
    Session* session = nullptr;
    const Client client = {301, 1000, static_cast<uint64_t>(round) + 1};
    ASSERT_EQ(instance_->open(0, O_RDWR, client, &session), 0) << last_error();
    for (int i = 0; i < 4; ++i) ASSERT_NE(allocate(4096, false, 9, 0, session), 0u) << round;
    ASSERT_EQ(instance_->close(session), 0);
  }
}

TEST_F(MemoryCalls, ALimitOfTheEnvironmentIsKept) {
  instance_.reset();
  start("trn1.2xlarge", uint64_t{64} << 20);
  const uint64_t handle = allocate(32 << 20);
  __u64 out = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 more = {48 << 20, 0, 0, 0, 0, 0, 9, &out, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &more), -ENOMEM);
  EXPECT_THAT(last_error(), HasSubstr("NEURON_EMULATOR_MEMORY_LIMIT"));
  ASSERT_EQ(free_handle(handle), 0);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &more), 0) << last_error();
}

TEST_F(MemoryCalls, TheContiguousScratchpadGrowsDownFromTheEndOfTheMainPool) {
  const uint32_t category = NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE;
  const uint64_t end = NEURON_V2_HBM_SIZE - (uint64_t{1} << 30);
  const uint64_t upper = allocate(1 << 20, false, category);
  const uint64_t lower = allocate(2 << 20, false, category);
  EXPECT_EQ(info(upper).pa, end - (1 << 20));
  EXPECT_EQ(info(lower).pa, end - (3 << 20));
  // A copy may run from the lower page into the one above it, but not beyond the pool.
  std::vector<uint8_t> bytes(3 << 20, 7);
  EXPECT_EQ(buffer_copy(lower, bytes.data(), bytes.size(), 0, true), 0) << last_error();
  EXPECT_EQ(buffer_copy(lower, bytes.data(), bytes.size(), 1, true), -EINVAL);
  void* address = nullptr;
  EXPECT_EQ(session_->map(3 << 20, 3, info(lower).mmap_offset, &address), 0);
  EXPECT_EQ(session_->map((3 << 20) + 4096, 3, info(lower).mmap_offset, &address), -EINVAL);
  ASSERT_EQ(free_handle(upper), 0);
  ASSERT_EQ(free_handle(lower), 0);
  EXPECT_EQ(info(allocate(1 << 20, false, category)).pa, end - (1 << 20));
}

TEST_F(MemoryCalls, ListsAllocationsOfAnHbmInAddressOrder) {
  const uint64_t a = allocate(1 << 20, false, NEURON_MEMALLOC_TYPE_CODE_DEVICE);
  const uint64_t b = allocate(2 << 20, false, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE);
  neuron_ioctl_mem_chunk_info chunks[8];
  neuron_ioctl_dump_mem_chunks dump = {0, 0, 0, nullptr};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_DUMP_MEM_CHUNKS, &dump), -EAGAIN);
  EXPECT_EQ(dump.num_entries_out, 3u);
  dump = {0, 8, 0, chunks};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DUMP_MEM_CHUNKS, &dump), 0) << last_error();
  EXPECT_EQ(chunks[0].pa, 0u);
  EXPECT_EQ(chunks[0].mem_type, NEURON_MEMALLOC_TYPE_NCDEV_DEVICE);
  EXPECT_EQ(chunks[1].pa, info(a).pa);
  EXPECT_EQ(chunks[2].pa, info(b).pa);
  EXPECT_EQ(chunks[2].mem_type, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE);
}

TEST_F(MemoryCalls, FindsTheAllocationThatContainsAnAddress) {
  const uint64_t handle = allocate(1 << 20);
  neuron_ioctl_mem_get_mc_mmap_info_v2 found = {info(handle).pa + 5000, 0, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_MEM_MC_GET_INFO_V2, &found), 0) << last_error();
  EXPECT_EQ(found.mmap_offset, info(handle).pa);
  EXPECT_EQ(found.size, uint64_t{1} << 20);
  EXPECT_EQ(found.mem_handle, handle);
  found.pa = 0x7000000;
  ASSERT_EQ(free_handle(handle), 0);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_MC_GET_INFO_V2, &found), -ENOMEM);
}

TEST_F(MemoryCalls, MapsWholeChunksAndNoRegisters) {
  const uint64_t handle = allocate(8192);
  const uint64_t offset = info(handle).mmap_offset;
  void* address = nullptr;
  ASSERT_EQ(session_->map(8192, 3, offset, &address), 0) << last_error();
  std::memset(address, 0x5A, 8192);
  char read[16];
  ASSERT_EQ(buffer_copy(handle, read, sizeof(read), 8000, false), 0);
  EXPECT_EQ(std::string(read, 16), std::string(16, 0x5A));
  EXPECT_EQ(session_->unmap(address, 8192), 0);
  EXPECT_EQ(session_->map(4096, 3, offset, &address), -EINVAL);
  EXPECT_EQ(session_->map(0, 3, offset, &address), -EINVAL);
  EXPECT_EQ(session_->map(8192, 3, 0x800000000ull, &address), -EPERM);
  neuron_ioctl_resource_mmap_info page = {NEURON_DM_BLOCK_TPB, 1, NEURON_DM_RESOURCE_SEMAPHORE, 0,
                                          0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_RESOURCE_MMAP_INFO, &page), 0);
  EXPECT_EQ(page.offset, 0xfffc0000000ull + 0x4000000 + 0x2700000);
  EXPECT_EQ(page.size, 0x2000u);
  EXPECT_EQ(session_->map(page.size, 3, page.offset, &address), -ENOTSUP);
  EXPECT_THAT(last_error(), HasSubstr("write_register"));
}

TEST_F(MemoryCalls, SharesOfAProcessAreReported) {
  allocate(1 << 20);
  allocate(8192, true, 2);
  alignas(8) char room[sizeof(neuron_ioctl_get_apps_info) + 2 * sizeof(neuron_app_info)] = {};
  auto& apps = *reinterpret_cast<neuron_ioctl_get_apps_info*>(room);
  apps.apps_info_flags = APP_INFO_ALL;
  apps.capacity = 2;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, &apps), 0);
  ASSERT_EQ(apps.size, 1u);
  EXPECT_EQ(apps.app_data[0].pid, kPid);
  EXPECT_EQ(apps.app_data[0].device_mem_size, size_t{1} << 20);
  EXPECT_EQ(apps.app_data[0].host_mem_size, 8192u);
}

TEST(MemoryBudget, CountsWhatWasPromisedAndIsNotYetBacked) {
  const std::string folder = ::testing::TempDir() + "/budget";
  ASSERT_EQ(::system(("mkdir -p " + folder).c_str()), 0);
  std::FILE* file = std::fopen((folder + "/meminfo").c_str(), "w");
  std::fprintf(file, "MemTotal: 4194304 kB\nMemAvailable:    1048576 kB\n");
  std::fclose(file);
  uint64_t resident = 0;
  MemoryBudget budget(
      {}, [&] { return resident; }, folder, folder + "/none");
  EXPECT_EQ(budget.reserve(uint64_t{600} << 20, {}, "HBM", 0), 0);
  EXPECT_EQ(budget.reserve(uint64_t{600} << 20, {}, "HBM", 0), -ENOMEM);
  EXPECT_THAT(last_error(), HasSubstr("MemAvailable"));
  resident = uint64_t{600} << 20;  // pages that exist are missing from MemAvailable already
  EXPECT_EQ(budget.reserve(uint64_t{600} << 20, {}, "HBM", 0), 0);
  budget.release(uint64_t{1200} << 20, {});
  EXPECT_EQ(budget.reserved(), 0u);
}

TEST(MemoryBudget, GivesAUserItsPartHoweverManyProcessesItHasAndNothingOfAnothers) {
  MemoryBudget budget({.all = 100 << 20, .each_user = 60 << 20});
  const Client first{.pid = 1, .user = 7, .process = 1}, fork{.pid = 2, .user = 7, .process = 2};
  const Client other{.pid = 3, .user = 8, .process = 3};
  EXPECT_EQ(budget.reserve(40 << 20, first, "HBM", 0), 0);
  EXPECT_EQ(budget.reserve(21 << 20, fork, "HBM", 3), -ENOMEM);
  EXPECT_THAT(last_error(),
              HasSubstr("device 3: 22020096 bytes of HBM exceed the 62914560 bytes that user 7 may "
                        "have, of which 41943040 are in use"));
  EXPECT_EQ(budget.reserve(20 << 20, fork, "HBM", 0), 0) << last_error();
  // What is left is the other user's, up to the limit of all.
  EXPECT_EQ(budget.reserve(40 << 20, other, "HBM", 0), 0) << last_error();
  EXPECT_EQ(budget.reserve(1, other, "HBM", 0), -ENOMEM);
  EXPECT_THAT(last_error(), HasSubstr("NEURON_EMULATOR_MEMORY_LIMIT=104857600"));
  // What the driver needs for all is no user's part, and not root's either.
  budget.release(1 << 20, other);
  EXPECT_EQ(budget.reserve(1 << 20, {}, "host memory", 0), 0) << last_error();
  budget.release(1 << 20, {});
  EXPECT_EQ(budget.reserve(1 << 20, other, "HBM", 0), 0) << last_error();
  // What a user gives back is its own again, and nobody else's.
  budget.release(20 << 20, fork);
  EXPECT_EQ(budget.reserve(21 << 20, other, "HBM", 0), -ENOMEM);
  EXPECT_EQ(budget.reserve(20 << 20, first, "HBM", 0), 0) << last_error();
  budget.release(60 << 20, first);
  budget.release(40 << 20, other);
  EXPECT_EQ(budget.reserved(), 0u);
}

TEST(MemoryBudget, RespectsTheControlGroup) {
  const std::string folder = ::testing::TempDir() + "/group";
  ASSERT_EQ(::system(("mkdir -p " + folder).c_str()), 0);
  const auto put = [&](const char* name, const char* text) {
    std::FILE* file = std::fopen((folder + name).c_str(), "w");
    std::fputs(text, file);
    std::fclose(file);
  };
  put("/memory.max", "104857600\n");
  put("/memory.current", "52428800\n");
  MemoryBudget budget({}, {}, folder, folder);
  EXPECT_EQ(budget.reserve(60 << 20, {}, "HBM", 0), -ENOMEM);
  EXPECT_THAT(last_error(), HasSubstr("control group"));
  EXPECT_EQ(budget.reserve(40 << 20, {}, "HBM", 0), 0) << last_error();
}

}  // namespace
}  // namespace neuron::service
