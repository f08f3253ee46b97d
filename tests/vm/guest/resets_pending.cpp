// SPDX-License-Identifier: Apache-2.0
// What other processes, and other threads, see while a reset is pending.
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const std::string kFolder = "/sys/class/neuron_device/neuron0/";

uint64_t number(const std::string& file) {
  uint64_t value = 0;
  std::ifstream stream(kFolder + file);
  EXPECT(stream >> value);
  return value;
}

void reset_by_sysfs() { std::ofstream(kFolder + "reset") << "1" << std::flush; }

int ask_for_reset(const Device& device, uint32_t cores) {
  neuron_ioctl_device_reset request = {cores, 0};
  return device.call(NEURON_IOCTL_NC_RESET, &request);
}

uint32_t processes(const Device& device) {
  std::vector<__u64> room(2 + 16 * 19);
  auto* list = reinterpret_cast<neuron_ioctl_get_apps_info*>(room.data());
  list->apps_info_flags = APP_INFO_ALL;
  list->capacity = 16;
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, list), 0);
  return list->size;
}

// What a reset takes away first; that takes a millisecond for each core.
void make_notification_queues(const Device& device) {
  for (const uint32_t kind : {NQ_DEVICE_TYPE_NEURON_CORE, NQ_DEVICE_TYPE_TOPSP}) {
    for (uint32_t id = 0; id < device.chip().cores; ++id) {
      neuron_ioctl_notifications_init_v2 request = {};
      request.nq_dev_type = kind;
      request.nq_dev_id = id;
      request.nq_type = NQ_TYPE_NOTIFY;
      request.size = 4096;
      request.on_host_memory = 1;
      EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &request), 0);
    }
  }
}

// A copy that hangs until its deadline: a reset of its core gives it a second, and is pending so
// long.
class HungCopies {
 public:
  explicit HungCopies(const Device& device) {
    for (uint32_t core = 0; core < 2; ++core) {
      memory_.emplace_back(device, 4096, Where{.core = core});
      neuron_ioctl_dma_eng_set_state stop = {device.chip().copy_engine + core, kDisabled};
      EXPECT_EQ(device.call(NEURON_IOCTL_DMA_ENG_SET_STATE, &stop), 0);
      threads_.emplace_back([this, &device, handle = memory_.back().handle()] {
        ++begun_;
        char bytes[64] = {};
        device.copy_in(handle, bytes, sizeof(bytes));
      });
    }
    EXPECT(becomes_true([&] { return begun_ == 2; }, 1000));
    usleep(50000);  // into the call; a copy that comes later makes the reset shorter, no more
  }
  ~HungCopies() {
    for (std::thread& thread : threads_) thread.join();
  }
  HungCopies(const HungCopies&) = delete;
  HungCopies& operator=(const HungCopies&) = delete;

 private:
  static constexpr uint32_t kDisabled = 0;
  std::atomic<int> begun_ = 0;
  std::list<Memory> memory_;
  std::vector<std::thread> threads_;
};

bool has_ended(pid_t child) {
  siginfo_t state = {};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT), 0);
  return state.si_pid == child;
}

CASE("a process that waits for its reset while it ends keeps nobody from opening the device") {
  const Device watcher;
  EXPECT_EQ(processes(watcher), 1);
  const int copies_hang = eventfd(0, 0);
  EXPECT(copies_hang >= 0);
  WaitingChild child([copies_hang]() -> __u64 {
    auto* own = new Device;
    // The parent waits for the value, and has its copies hang then: a thread asks for the reset.
    new std::thread([own, copies_hang] {
      eventfd_t begun = 0;
      if (eventfd_read(copies_hang, &begun) == 0) ask_for_reset(*own, 3);
    });
    return 1;
  });
  const HungCopies copies(watcher);
  EXPECT_EQ(eventfd_write(copies_hang, 1), 0);
  close(copies_hang);
  EXPECT(becomes_true(
      [] { return number("neuron_core0/stats/other_info/reset_req_count/total") > 0; }, 2000));
  EXPECT_EQ(kill(child.pid(), SIGKILL), 0);
  EXPECT(becomes_true([&] { return processes(watcher) == 1; }, 1000));
  const auto start = Clock::now();
  const int opened = exit_status_of_child([] {
    const Device another;
    const Memory memory(another, 4096);
    return 0;
  });
  const double took = since(start);
  const bool pending = !has_ended(child.pid());
  std::printf("# opened and closed in %.3f s, the reset is %s\n", took,
              pending ? "pending" : "over");
  EXPECT_EQ(opened, 0);
  EXPECT(pending);
}

CASE("a process that opens the device while it still gives back keeps what it gets then") {
  const Device watcher;
  for (int round = 0; round < 2; ++round) {
    const HungCopies copies(watcher);
    EXPECT_EQ(exit_status_of_child([&] {
                auto first = std::make_unique<Device>();
                __u64 before = 0;
                EXPECT_EQ(allocate(*first, 4096, {}, before), 0);
                EXPECT_EQ(ask_for_reset(*first, 3), 0);
                std::thread close_it([&] { first.reset(); });
                if (round == 1) becomes_true([&] { return processes(watcher) == 1; }, 1000);
                const Device second;
                const Memory memory(second, 4096);
                close_it.join();
                EXPECT_EQ(second.copy_in(memory.handle(), "kept", 4), 0);
                return 0;
              }),
              0);
  }
}

CASE("of requests for a reset by threads of a process at once one is taken and counted") {
  const Device device;
  const std::string file = "neuron_core0/stats/other_info/reset_req_count/total";
  const uint64_t before = number(file);
  make_notification_queues(device);
  std::atomic<int> taken = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const int result = ask_for_reset(device, 3);
      taken += result == 0;
      refused += result == -EBUSY;
    });
  }
  for (std::thread& thread : threads) thread.join();
  neuron_ioctl_device_ready ready = {static_cast<__u32>(getpid()), 1};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0);
  EXPECT_EQ(taken.load(), 1);
  EXPECT_EQ(refused.load(), 7);
  EXPECT_EQ(number(file), before + 1);
}

CASE("a reset that a thread asks for while another closes the device is not left behind") {
  for (unsigned round = 0; round < 8; ++round) {
    auto device = std::make_unique<Device>();
    make_notification_queues(*device);
    std::thread ask([fd = device->fd()] {
      neuron_ioctl_device_reset request = {3, 0};
      ioctl(fd, NEURON_IOCTL_NC_RESET, &request);
    });
    usleep(round * 500);
    device.reset();
    ask.join();
    const Device again;
    EXPECT_EQ(ask_for_reset(again, 3), 0);
    neuron_ioctl_device_ready ready = {static_cast<__u32>(getpid()), 1};
    EXPECT_EQ(again.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
    EXPECT_EQ(ready.result, 0);
  }
}

CASE("a device that a process has open is not reset by sysfs, however the two meet") {
  for (unsigned round = 0; round < 6; ++round) {
    make_notification_queues(Device());
    int begun[2];
    EXPECT_EQ(pipe(begun), 0);
    std::thread writer([&] {
      EXPECT_EQ(write(begun[1], "x", 1), 1);
      reset_by_sysfs();
    });
    char byte;
    EXPECT_EQ(read(begun[0], &byte, 1), 1);
    usleep(round * 700);
    bool was_reset = false;
    {
      const Device device;
      for (int i = 0; i < 40; ++i) {
        was_reset |= number("reset") != 1;
        usleep(1000);
      }
    }
    writer.join();
    close(begun[0]);
    close(begun[1]);
    EXPECT(!was_reset);
  }
  const Device device;  // after the last of them
}

CASE("a device that is to be reset twice opens after the second time") {
  for (int round = 0; round < 3; ++round) {
    reset_by_sysfs();
    reset_by_sysfs();
    const Device device;
    const Memory ring(device, 65536);
    neuron_ioctl_dma_queue_init request = {5, 4, 1024, 1024, ring.handle(), ring.handle(), 0, 0};
    EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_INIT, &request), 0);
    // A reset takes the rings of all queues.
    neuron_ioctl_dma_queue_copy_start nothing = {5, 4, 0, 0};
    EXPECT(!becomes_true(
        [&] { return device.call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &nothing) != 0; }, 1500));
  }
}

}  // namespace
}  // namespace neuron::guest
