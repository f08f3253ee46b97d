// SPDX-License-Identifier: Apache-2.0
// Descriptors that are copied, inherited, closed and killed while they are in use, and random
// calls.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <string>
#include <thread>

#include "tests/vm/guest/device.h"
#include "tests/vm/guest/robustness_calls.h"

namespace neuron::guest {
namespace {

void expect_a_working_device() {
  const Device device;
  const Memory memory(device, 1 << 20);
  const auto bytes = pattern(1 << 20, 77);
  std::vector<uint8_t> back(1 << 20);
  EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
  EXPECT(back == bytes);
}

// Bytes of HBM 0 in allocations.
__u64 allocated(const Device& device) {
  __u64 sum = 0;
  for (const auto& chunk : device.chunks(0)) sum += chunk.size;
  return sum;
}

CASE("a child that inherited the descriptor gets errors, and the parent goes on") {
  const Device device;
  const Memory memory(device, 4096);
  EXPECT_EQ(exit_status_of_child([&] {
              __u64 handle = 0;
              const int newest = allocate(device, 4096, {}, handle);
              neuron_ioctl_mem_alloc_v2 old = {4096, 0, 0, 0, 0, 0, &handle};
              const int older = device.call(NEURON_IOCTL_MEM_ALLOC_V2, &old);
              neuron_ioctl_hbm_scrub_start scrub = {0, 9, 0, 0};
              const int third = device.call(NEURON_IOCTL_HBM_SCRUB_START, &scrub);
              return newest < 0 && older < 0 && third < 0 ? 0 : 1;
            }),
            0);
  const Memory after(device, 4096);
  EXPECT_EQ(device.copy_in(memory.handle(), "fine", 4), 0);
}

CASE("a process that did not open the device itself reaches nothing through a descriptor it has") {
  // Calls that only ask, and calls whose effect goes with the process that made it.
  const std::set<std::string> open_to_all = {"DEVICE_READY",
                                             "DEVICE_RESET_STATUS",
                                             "DEVICE_INFO",
                                             "DEVICE_INIT",
                                             "DEVICE_RELEASE",
                                             "DEVICE_APP_PID",
                                             "DEVICE_GET_ALL_APPS_INFO",
                                             "BAR_READ",
                                             "DMA_ENG_GET_STATE",
                                             "DMA_QUEUE_GET_STATE",
                                             "SEMAPHORE_READ",
                                             "EVENT_GET",
                                             "NOTIFICATIONS_QUEUE_INFO",
                                             "READ_HW_COUNTERS",

                                             "RELEASE_NEURON_DS",
                                             "CRWL_READER_EXIT",
                                             "CRWL_WRITER_DOWNGRADE",
                                             "CRWL_NC_RANGE_MARK",
                                             "CRWL_NC_RANGE_MARK_EXT0",
                                             "CRWL_NC_RANGE_UNMARK",
                                             "CRWL_NC_RANGE_UNMARK_EXT0",
                                             "NC_MODEL_STARTED_COUNT",
                                             "COMPATIBLE_VERSION",
                                             "DEVICE_BASIC_INFO",
                                             "DEVICE_BDF",
                                             "DEVICE_BDF_EXT",
                                             "NC_RESET_READY",
                                             "DMABUF_FD",
                                             "DRIVER_INFO_GET",
                                             "DRIVER_INFO_SET",
                                             "RESOURCE_MMAP_INFO",
                                             "PRINTK",
                                             "HOST_DEVICE_ID",
                                             "HOST_DEVICE_ID_TO_RID_MAP",
                                             "DUMP_MEM_CHUNKS",
                                             "NC_PID_STATE_DUMP",
                                             "GET_LOGICAL_TO_PHYSICAL_NC_MAP",
                                             "POD_INFO",
                                             "POD_STATUS",
                                             "POD_STATUS_V2",
                                             "POD_CTRL",
                                             "POD_CTRL_V2"};
  const Device device;
  const Memory memory(device, 65536);
  EXPECT_EQ(
      exit_status_of_child([&] {
        for (const Call& call : all_calls()) {
          if (open_to_all.contains(call.name)) continue;
          std::vector<__u64> argument(call.size / 8 + 512);
          const int result = device.call(call.number, argument.data());
          if (result != -EACCES) {
            std::printf("# %s answers %d\n", call.name, result);
            return 1;
          }
        }
        return Mapping::attempt(device.fd(), memory.mmap_offset(), 65536, PROT_READ) == -EACCES ? 0
                                                                                                : 2;
      }),
      0);
  expect_a_working_device();
}

CASE("closing a copy of a descriptor takes nothing from the other one") {
  const Device device;
  Memory memory(device, 4096);
  const int copy = dup(device.fd());
  EXPECT(copy >= 0);
  EXPECT_EQ(close(copy), 0);
  __u64 handle = 0;
  const int error = allocate(device, 4096, {}, handle);
  if (error == 0) {
    EXPECT_EQ(device.copy_in(memory.handle(), "kept", 4), 0);
  } else {
    memory.forget();
  }
  expect_a_working_device();
}

CASE("a second open of the same process outlives the first") {
  auto first = std::make_unique<Device>();
  const Device second;
  const Memory memory(second, 4096);
  first.reset();
  EXPECT_EQ(second.copy_in(memory.handle(), "kept", 4), 0);
}

sigjmp_buf reading_failed;
void stop_reading(int) { siglongjmp(reading_failed, 1); }

CASE("what a mapping shows after its memory was freed never belongs to another process") {
  const Device device;
  Memory memory(device, 64 << 10);
  const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ);
  const __u64 pa = memory.pa();
  neuron_ioctl_mem_free request = {memory.handle()};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_FREE, &request), 0);
  memory.forget();
  // Another process fills every small piece of memory there is around that place.
  WaitingChild child([&]() -> __u64 {
    auto* own = new Device;
    for (int i = 0; i < 64; ++i) {
      auto* each = new Memory(*own, 64 << 10);
      const std::vector<uint8_t> secret(64 << 10, 0x5e);
      own->copy_in(each->handle(), secret.data(), secret.size());
      if (each->pa() == pa) return 1;
    }
    return 0;
  });
  // The place may be kept back, or the mapping taken away, whose reader then gets a signal.
  if (child.value() != 1) return;
  signal(SIGBUS, stop_reading);
  signal(SIGSEGV, stop_reading);
  volatile uint8_t seen = 0;
  if (sigsetjmp(reading_failed, 1) == 0) seen = mapping.bytes()[0];
  signal(SIGBUS, SIG_DFL);
  signal(SIGSEGV, SIG_DFL);
  EXPECT(seen != 0x5e);
}

CASE("an unprivileged process maps nothing but allocations") {
  const Device device;
  EXPECT_EQ(exit_status_of_child([] {
              if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
              const Device own;
              for (const __u64 offset : {0ull, 1ull << 30, 1ull << 40, 1ull << 46, 1ull << 62}) {
                if (Mapping::attempt(own.fd(), offset, 4096, PROT_READ) == 0) return 2;
                if (Mapping::attempt(own.fd(), offset, 1 << 30, PROT_READ) == 0) return 3;
              }
              return 0;
            }),
            0);
}

CASE("a process that dies while its copies run leaves nothing") {
  const Device device;
  const __u64 before = allocated(device);
  for (int round = 0; round < 20; ++round) {
    {
      WaitingChild child([&]() -> __u64 {
        auto* own = new Device;
        auto* from = new Memory(*own, 16 << 20);
        auto* to = new Memory(*own, 16 << 20, {.core = 1});
        // The copies go on in threads while the parent decides when to end all this.
        new std::thread([=] {
          while (own->copy(from->handle(), to->handle(), 16 << 20) == 0) {
          }
        });
        new std::thread([=] {
          std::vector<uint8_t> bytes(1 << 20);
          while (own->copy_in(to->handle(), bytes.data(), bytes.size()) == 0) {
          }
        });
        return 1;
      });
      usleep(static_cast<unsigned>(round) * 700);
    }
    EXPECT(becomes_true([&] { return allocated(device) == before; }, 5000));
  }
  expect_a_working_device();
}

CASE("a process that dies between the start of a copy and the wait for it leaves nothing") {
  const Device device;
  const __u64 before = allocated(device);
  for (int round = 0; round < 10; ++round) {
    WaitingChild child([&]() -> __u64 {
      auto* own = new Device;
      auto* from = new Memory(*own, 16 << 20);
      auto* to = new Memory(*own, 16 << 20);
      neuron_ioctl_mem_copy_async64 request = {};
      request.src_mem_handle = from->handle();
      request.dst_mem_handle = to->handle();
      request.size = 16 << 20;
      request.pwait_handle = static_cast<uint32_t>(NEURON_DMA_H2T_CTX_HANDLE_NONE);
      return static_cast<__u64>(own->call(NEURON_IOCTL_MEM_COPY_ASYNC64, &request));
    });
    child.stop();
    EXPECT(becomes_true([&] { return allocated(device) == before; }, 5000));
  }
  expect_a_working_device();
}

CASE("many threads use and close one device at once") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&wrong, t] {
      try {
        for (int round = 0; round < 15; ++round) {
          const Device device;
          const Memory memory(device, 128 << 10, {.core = t % 2});
          const auto bytes = pattern(128 << 10, t * 100 + round);
          std::vector<uint8_t> back(bytes.size());
          wrong += device.copy_in(memory.handle(), bytes.data(), bytes.size()) != 0;
          wrong += device.copy_out(memory.handle(), back.data(), back.size()) != 0;
          wrong += back != bytes;
        }
      } catch (const Failure& failure) {
        std::printf("# %s\n", failure.why.c_str());
        ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

CASE("resets by two processes while a third one copies end, and the device works") {
  WaitingChild copies([]() -> __u64 {
    auto* own = new Device;
    auto* memory = new Memory(*own, 1 << 20);
    new std::thread([=] {
      std::vector<uint8_t> bytes(1 << 20);
      while (true) own->copy_in(memory->handle(), bytes.data(), bytes.size());
    });
    return 1;
  });
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&wrong] {
        wrong += exit_status_of_child([] {
          const Device own;
          neuron_ioctl_device_reset request = {3, 0};
          if (own.call(NEURON_IOCTL_NC_RESET, &request) != 0) return 1;
          neuron_ioctl_device_ready ready = {request.request_id, 7};
          return own.call(NEURON_IOCTL_NC_RESET_READY, &ready) == 0 && ready.result == 0 ? 0 : 1;
        });
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  }
  copies.stop();
  expect_a_working_device();
}

// Numbers as a confused program gives them: small ones, handles, sizes, edges.
class Confused {
 public:
  explicit Confused(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  __u64 number(const std::vector<uint8_t>& room) {
    switch (next() % 8) {
      case 0:
        return next() % 4;
      case 1:
        return next() % 40;
      case 2:
        return 1ull << next() % 64;
      case 3:
        return 4096 * (next() % 64);
      case 4:
        return reinterpret_cast<__u64>(room.data()) + next() % 4096;
      case 5:
        return ~0ull - next() % 16;
      default:
        return 0;
    }
  }

 private:
  uint32_t state_;
};

CASE("random calls of several processes end, and the device works after them") {
  const char* seconds_text = std::getenv("NEURON_VM_FUZZ_SECONDS");
  const int seconds = seconds_text ? std::atoi(seconds_text) : 10;
  const auto seed = static_cast<uint32_t>(time(nullptr));
  std::printf("# seed %u, %d s\n", seed, seconds);
  alarm(static_cast<unsigned>(seconds) + 60);
  std::vector<pid_t> children;
  for (uint32_t child = 0; child < 3; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(static_cast<unsigned>(seconds) + 30);
      Confused random(seed + child);
      std::vector<uint8_t> room(1 << 16);
      std::vector<__u64> argument(2048);
      const time_t end = time(nullptr) + seconds;
      int fd = Device::try_open(0, O_RDWR);
      while (time(nullptr) < end) {
        const Call& call = all_calls()[random.next() % all_calls().size()];
        if (!call.harmless) continue;
        for (size_t i = 0; i <= call.size / 8; ++i) {
          argument[i] = random.number(room);
          if (random.next() % 2) {  // fields of 32 bits
            argument[i] = (random.number(room) & 0xffffffff) << 32 | (argument[i] & 0xffffffff);
          }
        }
        ioctl(fd, call.number, argument.data());
        if (random.next() % 512 == 0) {
          close(fd);
          fd = Device::try_open(0, random.next() % 8 ? O_RDWR : O_WRONLY);
        }
      }
      _exit(0);
    }
    children.push_back(pid);
  }
  int bad = 0;
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    // A wild pointer may make a call write over the child's own memory; that ends the child alone.
    bad += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  }
  EXPECT_EQ(bad, 0);
  expect_a_working_device();
}

}  // namespace
}  // namespace neuron::guest
