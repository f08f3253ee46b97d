// SPDX-License-Identifier: Apache-2.0
// Host memory: how much of it a process may have, and pieces that are larger than what the kernel
// gives in one. The boot has a reserve of 32 MiB.
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <list>
#include <memory>
#include <string>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

constexpr __u64 kMiB = 1 << 20;
constexpr Where kHost = {.host = true, .category = NEURON_MEMALLOC_TYPE_TENSORS_HOST};

// The limit of a process for the time of a case.
class Limit {
 public:
  explicit Limit(unsigned mib) { set(mib); }
  ~Limit() { set(0); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  static void set(unsigned mib) {
    std::ofstream file("/sys/module/neuron/parameters/host_memory_limit_mib");
    file << mib << std::flush;
  }
};

int allocate_host(const Device& device, __u64 size) {
  __u64 handle = 0;
  return allocate(device, size, kHost, handle);
}

CASE("a process gets host memory up to the limit, and as much again as it gives back") {
  const Limit limit(32);
  const Device device;
  std::list<Memory> memory;
  for (int i = 0; i < 8; ++i) memory.emplace_back(device, 4 * kMiB, kHost);
  EXPECT_EQ(allocate_host(device, 4096), -ENOMEM);
  memory.pop_back();
  memory.emplace_back(device, 3 * kMiB, kHost);
  EXPECT_EQ(allocate_host(device, 2 * kMiB), -ENOMEM);
  memory.emplace_back(device, kMiB, kHost);
  EXPECT_EQ(allocate_host(device, 4096), -ENOMEM);
  const Memory of_the_device(device, 64 * kMiB);
}

CASE("what is freed counts as long as it is mapped") {
  const Limit limit(8);
  const Device device;
  Memory mapped(device, 4 * kMiB, kHost);
  const Memory other(device, 4 * kMiB, kHost);
  {
    const Mapping mapping(device, mapped.mmap_offset(), mapped.size(), PROT_READ | PROT_WRITE);
    mapping.word(0) = 1;
    neuron_ioctl_mem_free request = {mapped.handle()};
    EXPECT_EQ(device.call(NEURON_IOCTL_MEM_FREE, &request), 0);
    mapped.forget();
    EXPECT_EQ(allocate_host(device, 4096), -ENOMEM);
  }
  const Memory again(device, 4 * kMiB, kHost);
}

CASE("notification queues in host memory count too") {
  const Limit limit(4);
  const Device device;
  neuron_ioctl_notifications_init_with_realloc_v2 request = {};
  request.nq_type = NQ_TYPE_NOTIFY;
  request.engine_index = 1;
  request.size = 4 * kMiB;
  request.on_host_memory = 1;
  request.force_alloc_mem = 1;
  EXPECT_EQ(exit_status_of_child([&] {
              const Device own;
              const Memory half(own, 2 * kMiB, kHost);
              return own.call(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &request) == -ENOMEM
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &request), 0);
  EXPECT_EQ(allocate_host(device, 4096), -ENOMEM);
  neuron_ioctl_device_reset reset = {3, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET, &reset), 0);  // takes the queue away
  neuron_ioctl_device_ready ready = {reset.request_id, 1};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(allocate_host(device, 4096), 0);
}

CASE("each process has its own limit, whose rest is nobody's when it has gone") {
  const Limit limit(8);
  const Device device;
  const Memory memory(device, 8 * kMiB / 2, kHost), more(device, 8 * kMiB / 2, kHost);
  for (int round = 0; round < 4; ++round) {
    WaitingChild child([]() -> __u64 {
      auto* own = new Device;
      new Memory(*own, 4 * kMiB, kHost);
      new Memory(*own, 4 * kMiB, kHost);
      return static_cast<__u64>(-allocate_host(*own, 4096));
    });
    EXPECT_EQ(child.value(), ENOMEM);
  }
  EXPECT_EQ(allocate_host(device, 4096), -ENOMEM);
}

CASE("without a limit that somebody set a process gets half of the host's memory at most") {
  struct sysinfo host = {};
  EXPECT_EQ(sysinfo(&host), 0);
  const __u64 total = host.totalram * host.mem_unit;
  const int status = exit_status_of_child([&] {
    const Device own;
    __u64 mine = 0;
    while (mine < total * 3 / 5 && allocate_host(own, 4 * kMiB) == 0) mine += 4 * kMiB;
    std::printf("# %llu of %llu MiB\n", mine / kMiB, total / kMiB);
    return mine > total / 2 ? 1 : mine < total / 4 ? 2 : 0;
  });
  EXPECT_EQ(status, 0);
}

CASE("an allocation of host memory may be larger than what the kernel gives in one piece") {
  const Device device;
  const Memory memory(device, 16 * kMiB, kHost);
  const Memory in_hbm(device, 16 * kMiB);
  const auto bytes = pattern(16 * kMiB, 21);
  {
    const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ | PROT_WRITE);
    for (__u64 at = 0; at < memory.size(); at += 4096) EXPECT_EQ(mapping.word(at), 0);
    std::copy(bytes.begin(), bytes.end(), mapping.bytes());
  }
  // The engine reads it through, so it is one piece for the device.
  EXPECT_EQ(device.copy(memory.handle(), in_hbm.handle(), 16 * kMiB), 0);
  std::vector<uint8_t> back(bytes.size());
  EXPECT_EQ(device.copy_out(in_hbm.handle(), back.data(), back.size()), 0);
  EXPECT(back == bytes);
}

CASE(
    "the reserve is given out, refused when it is used up, and given out again without its bytes") {
  const Device device;
  {
    const Memory first(device, 16 * kMiB, kHost);
    const Memory second(device, 16 * kMiB, kHost);
    EXPECT_EQ(allocate_host(device, 8 * kMiB), -ENOMEM);
    const Mapping mapping(device, second.mmap_offset(), second.size(), PROT_READ | PROT_WRITE);
    std::fill(mapping.bytes(), mapping.bytes() + mapping.size(), uint8_t{0x5e});
  }
  const Memory whole(device, 32 * kMiB, kHost);
  const Mapping mapping(device, whole.mmap_offset(), whole.size(), PROT_READ);
  for (__u64 at = 0; at < mapping.size(); at += 4096) EXPECT_EQ(mapping.word(at), 0);
}

CASE("a process that is killed gives its part of the reserve back") {
  const Device device;
  for (int round = 0; round < 4; ++round) {
    WaitingChild child([]() -> __u64 {
      auto* own = new Device;
      auto* memory = new Memory(*own, 32 * kMiB, kHost);
      auto* mapping =
          new Mapping(*own, memory->mmap_offset(), memory->size(), PROT_READ | PROT_WRITE);
      mapping->word(0) = 1;
      return memory->pa();
    });
    EXPECT_EQ(allocate_host(device, 8 * kMiB), -ENOMEM);
  }
  const Memory whole(device, 32 * kMiB, kHost);
}

}  // namespace
}  // namespace neuron::guest
