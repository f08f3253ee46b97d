// SPDX-License-Identifier: Apache-2.0
// Windows that show memory of emulated devices: of threads, of processes with a device each, and of
// processes that share one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ndl/ndl.h>
#include <nrt/nrt.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"
#include "tests/unit/ccom/api/job.h"
#include "tests/unit/ccom/api/ranks.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;
using test::Daemon;
using test::Folder;
using test::Setting;
using ::testing::HasSubstr;

// Device memory of this process, mapped.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) : bytes_(bytes) {
    EXPECT_EQ(ndl_open_device(0, nullptr, &device_), 0) << ndl_last_error();
    EXPECT_EQ(ndl_memory_alloc(device_, bytes, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE,
                               &handle_),
              0)
        << ndl_last_error();
    EXPECT_EQ(ndl_memory_map(handle_, &at_), 0) << ndl_last_error();
    clear();
  }
  ~DeviceBytes() { free(); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void clear() const { std::fill_n(static_cast<uint8_t*>(at_), bytes_, 0xee); }
  void free() {
    if (device_ == nullptr) return;
    EXPECT_EQ(ndl_memory_free(handle_), 0) << ndl_last_error();
    EXPECT_EQ(ndl_close_device(device_), 0) << ndl_last_error();
    device_ = nullptr;
  }
  // As the device has them: through its own DMA.
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> bytes(bytes_);
    EXPECT_EQ(ndl_memory_buf_copyout(handle_, bytes.data(), 0, bytes_), 0) << ndl_last_error();
    return bytes;
  }
  void reset() const {
    uint32_t request = 0;
    uint8_t done = 0;
    ASSERT_EQ(ndl_reset_ncs(0, NEURON_NC_MAP_DEVICE, &request), 0) << ndl_last_error();
    ASSERT_EQ(ndl_ready_ncs(0, request, &done), 0) << ndl_last_error();
    EXPECT_EQ(done, 1);
  }
  void* at() const { return at_; }

 private:
  size_t bytes_;
  ndl_device_t* device_ = nullptr;
  uint64_t handle_ = 0;
  void* at_ = nullptr;
};

// The driver library belongs to the process that has used it, so no test uses it in this one.
void in_a_process(const std::function<void()>& work) {
  test::Child child = test::Child::forked([&] {
    const Setting emulator("NEURON_EMULATOR", "trn1.2xlarge");
    work();
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

uint32_t open_window(ccom_comm_t* comm, void* memory, size_t bytes) {
  uint32_t window = 99;
  EXPECT_EQ(ccom_window_open(comm, memory, bytes, &window), CCOM_SUCCESS) << ccom_last_error();
  return window;
}

uint8_t value_of(uint32_t from, uint32_t to, size_t at) {
  return static_cast<uint8_t>(from * 71 + to * 13 + at * 7 + at / 251);
}

// Each rank puts a part of its own into the window of each, itself included, and reads them. The
// name of what is wrong; "": nothing.
std::string exchange(ccom_comm_t* comm, uint32_t window, const DeviceBytes& memory, size_t part) {
  const uint32_t me = ccom_rank(comm), size = ccom_size(comm);
  std::vector<uint8_t> source(part);
  memory.clear();
  const ccom_collective_t barrier = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
  if (ccom_run(comm, &barrier) != CCOM_SUCCESS) return ccom_last_error();
  for (uint32_t to = 0; to < size; ++to) {
    for (size_t i = 0; i < part; ++i) source[i] = value_of(me, to, i);
    if (ccom_put(comm, window, to, me * part, source.data(), part, 3) != CCOM_SUCCESS) {
      return ccom_last_error();
    }
    std::fill(source.begin(), source.end(), 0);
  }
  for (uint32_t from = 0; from < size; ++from) {
    if (ccom_wait_signal(comm, window, from, 3, 1, 0) != CCOM_SUCCESS) return ccom_last_error();
  }
  const std::vector<uint8_t> there = memory.read();
  // Nobody clears its memory before all have read.
  if (ccom_run(comm, &barrier) != CCOM_SUCCESS) return ccom_last_error();
  for (size_t i = 0; i < size * part; ++i) {
    const auto from = static_cast<uint32_t>(i / part);
    if (there[i] != value_of(from, me, i % part)) {
      return "byte " + std::to_string(i % part) + " of rank " + std::to_string(from);
    }
  }
  return there[size * part] == 0xee ? "" : "what lies behind";
}

constexpr size_t kPart = (1u << 20) + 300;

TEST(DeviceWindow, OfThreadsHasWhatEachPutThere) {
  in_a_process([] {
    for (const uint32_t flags : {0u, CCOM_FLAG_NO_SHARED_MEMORY}) {
      ccom_options_t options = quick_options();
      options.flags = flags;
      if (flags != 0) options.providers = "tcp";
      Ranks ranks(3, options);
      ranks.each([&](ccom_comm_t* comm, uint32_t) {
        const DeviceBytes memory(4 * kPart);
        const uint32_t window = open_window(comm, memory.at(), 4 * kPart);
        EXPECT_EQ(exchange(comm, window, memory, kPart), "") << flags;
        EXPECT_EQ(exchange(comm, window, memory, 100), "") << flags;
        EXPECT_EQ(ccom_window_close(comm, window), CCOM_SUCCESS) << ccom_last_error();
      });
    }
  });
}

// Reports "" or what went wrong.
void tell_outcome(int report, uint32_t rank, const std::string& wrong) {
  Report said;
  said.rank = rank;
  said.status = wrong.empty() ? CCOM_SUCCESS : CCOM_SYSTEM;
  std::snprintf(said.sentence, sizeof(said.sentence), "%s", wrong.c_str());
  static_cast<void>(!write(report, &said, sizeof(said)));
}

void exchange_in_processes(const std::string& emulator, uint32_t flags) {
  Job job(
      3, 20000,
      [&](ccom_comm_t* comm, uint32_t rank, int report) {
        const Setting device("NEURON_EMULATOR", emulator.c_str());
        {
          const DeviceBytes memory(4 * kPart);
          const uint32_t window = open_window(comm, memory.at(), 4 * kPart);
          std::string wrong = exchange(comm, window, memory, kPart);
          if (wrong.empty()) wrong = exchange(comm, window, memory, 1000);
          if (ccom_window_close(comm, window) != CCOM_SUCCESS) wrong = ccom_last_error();
          tell_outcome(report, rank, wrong);
        }
        ccom_free(comm);
      },
      flags);
  for (int i = 0; i < 3; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    EXPECT_STREQ(said.sentence, "") << "rank " << said.rank;
  }
}

TEST(DeviceWindow, OfProcessesWithADeviceEachHasWhatEachPutThere) {
  exchange_in_processes("trn1.2xlarge", 0);
}

TEST(DeviceWindow, OfProcessesWithoutSharedMemoryHasWhatEachPutThere) {
  exchange_in_processes("trn1.2xlarge", CCOM_FLAG_NO_SHARED_MEMORY);
}

TEST(DeviceWindow, OfProcessesThatShareADeviceHasWhatEachPutThere) {
  const Folder folder;
  const Daemon daemon(folder);
  exchange_in_processes(daemon.emulator(), 0);
}

TEST(DeviceWindow, ShowsATensorOfLibnrtBesideHostMemoryAndNothing) {
  in_a_process([] {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    nrt_tensor_t* tensor = nullptr;
    ASSERT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8192, "t", &tensor), NRT_SUCCESS);
    void* const at = nrt_tensor_get_va(tensor);
    ASSERT_NE(at, nullptr);
    Ranks ranks(3);
    ranks.each([&](ccom_comm_t* comm, uint32_t me) {
      void* host = nullptr;
      ASSERT_EQ(ccom_mem_alloc(comm, 8192, &host), CCOM_SUCCESS) << ccom_last_error();
      const uint32_t window = me == 0   ? open_window(comm, at, 8192)
                              : me == 1 ? open_window(comm, host, 8192)
                                        : open_window(comm, nullptr, 0);
      const std::vector<uint8_t> source(4096, static_cast<uint8_t>(40 + me));
      for (const uint32_t to : {0u, 1u}) {
        if (me == to) continue;
        ASSERT_EQ(ccom_put(comm, window, to, 2048 * me, source.data(), 2048, 0), CCOM_SUCCESS)
            << ccom_last_error();
      }
      for (uint32_t from = 0; me < 2 && from < 3; ++from) {
        if (from == me) continue;
        ASSERT_EQ(ccom_wait_signal(comm, window, from, 0, 1, 0), CCOM_SUCCESS) << ccom_last_error();
      }
      if (me == 0) {
        std::vector<uint8_t> there(8192);
        EXPECT_EQ(nrt_tensor_read(tensor, there.data(), 0, there.size()), NRT_SUCCESS);
        EXPECT_EQ(std::count(there.begin() + 2048, there.begin() + 4096, 41), 2048);
        EXPECT_EQ(std::count(there.begin() + 4096, there.begin() + 6144, 42), 2048);
      }
      if (me == 1) {
        EXPECT_EQ(static_cast<uint8_t*>(host)[4096 + 2047], 42);
      }
      EXPECT_EQ(ccom_window_close(comm, window), CCOM_SUCCESS) << ccom_last_error();
    });
    nrt_tensor_free(&tensor);
    nrt_close();
  });
}

TEST(DeviceWindow, IsRefusedForOtherMemoryAndForPutsBehindItsEnd) {
  in_a_process([] {
    Ranks ranks(2);
    const DeviceBytes memory(8192);
    ranks.each([&](ccom_comm_t* comm, uint32_t me) {
      uint32_t window = 0;
      uint8_t elsewhere[64] = {};
      EXPECT_EQ(ccom_window_open(comm, elsewhere, me == 1 ? 64 : 0, &window), CCOM_INVALID);
      EXPECT_THAT(ccom_last_error(), HasSubstr("rank 1 (host "));
      EXPECT_THAT(ccom_last_error(), HasSubstr("64 bytes at 0x"));
      EXPECT_THAT(ccom_last_error(), HasSubstr("nor those of a tensor on a device"));
      EXPECT_EQ(ccom_window_open(comm, memory.at(), me == 1 ? 1u << 30 : 0, &window), CCOM_INVALID)
          << "it ends behind the memory";
      window = open_window(comm, memory.at(), me == 1 ? 8192 : 0);
      EXPECT_EQ(ccom_put(comm, window, 1, 8191, elsewhere, 2, 0), CCOM_INVALID);
      EXPECT_THAT(ccom_last_error(),
                  HasSubstr("2 bytes at 8191 do not fit into the window of rank 1"));
      EXPECT_EQ(ccom_status(comm), CCOM_SUCCESS);
      EXPECT_EQ(ccom_window_close(comm, window), CCOM_SUCCESS) << ccom_last_error();
    });
  });
}

TEST(DeviceWindow, KeepsWhatWasPutAndTakesWhatComesWhenItsDeviceIsReset) {
  Job job(2, 20000, [&](ccom_comm_t* comm, uint32_t rank, int report) {
    const Setting device("NEURON_EMULATOR", "trn1.2xlarge");
    const DeviceBytes memory(3000);
    const uint32_t window = open_window(comm, memory.at(), 3000);
    const std::vector<uint8_t> first(1000, 11), second(1000, 22);
    std::string wrong;
    if (rank == 0) {
      if (ccom_put(comm, window, 1, 0, first.data(), 1000, 0) != CCOM_SUCCESS ||
          ccom_wait_signal(comm, window, 1, 1, 1, 0) != CCOM_SUCCESS ||
          ccom_put(comm, window, 1, 1000, second.data(), 1000, 0) != CCOM_SUCCESS) {
        wrong = ccom_last_error();
      }
    } else {
      if (ccom_wait_signal(comm, window, 0, 0, 1, 0) != CCOM_SUCCESS) wrong = ccom_last_error();
      memory.reset();
      if (ccom_signal(comm, window, 0, 1) != CCOM_SUCCESS ||
          ccom_wait_signal(comm, window, 0, 0, 1, 0) != CCOM_SUCCESS) {
        wrong = ccom_last_error();
      }
      const auto there = memory.read();
      if (std::count(there.begin(), there.begin() + 1000, 11) != 1000) wrong += " of before";
      if (std::count(there.begin() + 1000, there.begin() + 2000, 22) != 1000) wrong += " of behind";
    }
    if (ccom_window_close(comm, window) != CCOM_SUCCESS) wrong = ccom_last_error();
    tell_outcome(report, rank, wrong);
    ccom_free(comm);
  });
  for (int i = 0; i < 2; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    EXPECT_STREQ(said.sentence, "") << "rank " << said.rank;
  }
}

TEST(DeviceWindow, OfATensorThatIsFreedEndsWithTheSentenceOfItsOwner) {
  Job job(2, 20000, [&](ccom_comm_t* comm, uint32_t rank, int report) {
    const Setting device("NEURON_EMULATOR", "trn1.2xlarge");
    DeviceBytes memory(3000);
    const uint32_t window = open_window(comm, memory.at(), 3000);
    if (rank == 1) memory.free();
    Job::tell(report, rank, ccom_wait_signal(comm, window, 1 - rank, 0, 1, 0));
    poll(nullptr, 0, 20000);
  });
  for (int i = 0; i < 2; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(10000)));
    EXPECT_EQ(said.status, CCOM_INVALID) << said.sentence;
    EXPECT_THAT(said.sentence, HasSubstr("the window of rank 1 (host "));
    EXPECT_THAT(said.sentence, HasSubstr("are no longer mapped"));
  }
}

TEST(DeviceWindow, OfAThreadRefusesPutsWhenItsTensorIsFreed) {
  in_a_process([] {
    Ranks ranks(2);
    std::atomic<bool> freed{false};
    ranks.each([&](ccom_comm_t* comm, uint32_t me) {
      DeviceBytes memory(3000);
      const uint32_t window =
          open_window(comm, me == 1 ? memory.at() : nullptr, me == 1 ? 3000 : 0);
      if (me == 1) {
        memory.free();
        freed = true;
        return;
      }
      ASSERT_TRUE(test::eventually([&] { return freed.load(); }));
      const uint8_t byte = 0;
      EXPECT_EQ(ccom_put(comm, window, 1, 0, &byte, 1, 0), CCOM_INVALID);
      EXPECT_THAT(ccom_last_error(), HasSubstr("the window of rank 1 (host "));
      EXPECT_THAT(ccom_last_error(), HasSubstr("are no longer mapped"));
    });
  });
}

// Ranks that wait in windows of device memory of their own; what each waiter reports.
std::vector<Report> of_waiting_ranks(const std::string& emulator,
                                     const std::function<void(const Job&)>& harm, int waiters) {
  Job job(3, 20000, [&](ccom_comm_t* comm, uint32_t rank, int report) {
    const Setting device("NEURON_EMULATOR", emulator.c_str());
    const DeviceBytes memory(3000);
    const uint32_t window = open_window(comm, memory.at(), 3000);
    Job::tell(report, rank, CCOM_SUCCESS);
    Job::tell(report, rank, ccom_wait_signal(comm, window, (rank + 1) % 3, 0, 1, 0));
    poll(nullptr, 0, 20000);
    _exit(0);
  });
  std::vector<Report> reports;
  Report said;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(job.hear(said, milliseconds(20000)));
  }
  harm(job);
  for (int i = 0; i < waiters; ++i) {
    if (job.hear(said, milliseconds(10000))) reports.push_back(said);
  }
  return reports;
}

TEST(DeviceWindow, EndsForAllWhenARankDies) {
  const auto reports = of_waiting_ranks(
      "trn1.2xlarge", [](const Job& job) { kill(job.child(2), SIGKILL); }, 2);
  ASSERT_EQ(reports.size(), 2u);
  for (const Report& said : reports) {
    EXPECT_EQ(said.status, CCOM_RANK_DEAD) << said.sentence;
    EXPECT_THAT(said.sentence, HasSubstr("rank 2 (host "));
  }
}

TEST(DeviceWindow, EndsForAllWhenTheDeviceGoesAway) {
  const Folder folder;
  Daemon daemon(folder);
  const auto reports = of_waiting_ranks(
      daemon.emulator(), [&](const Job&) { daemon.process().signal(SIGKILL); }, 3);
  ASSERT_EQ(reports.size(), 3u);
  for (const Report& said : reports) {
    EXPECT_EQ(said.status, CCOM_SYSTEM) << said.sentence;
    EXPECT_THAT(said.sentence, HasSubstr("device 0 is gone, and with it the memory that is shown"));
  }
}

}  // namespace
}  // namespace neuron::ccom
