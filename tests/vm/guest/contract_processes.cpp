// SPDX-License-Identifier: Apache-2.0
// What belongs to a process and goes with it; notification queues and datastores, which outlive it
// or do not.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

CASE("a killed process leaves no memory behind") {
  const Device device;
  __u64 pa;
  {
    WaitingChild child([]() -> __u64 {
      auto* own = new Device;
      return (new Memory(*own, 32 << 20))->pa();
    });
    pa = child.value();
    EXPECT(device.has_chunk(0, pa));
  }
  EXPECT(becomes_true([&] { return !device.has_chunk(0, pa); }, 2000));
}

CASE("a killed process leaves no place taken in the list of processes") {
  const Device device;
  for (int round = 0; round < 20; ++round) {
    WaitingChild child([]() -> __u64 {
      auto* own = new Device;
      return static_cast<__u64>(own->fd());
    });
  }
  std::vector<__u64> room(2 + 16 * 19);
  auto* list = reinterpret_cast<neuron_ioctl_get_apps_info*>(room.data());
  list->apps_info_flags = APP_INFO_ALL;
  list->capacity = 16;
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, list), 0);
  EXPECT_EQ(list->size, 1);
}

CASE("sixteen processes attach to a device, the seventeenth is told to come back") {
  std::list<WaitingChild> children;
  for (int i = 0; i < 16; ++i) {
    children.emplace_back([]() -> __u64 {
      auto* own = new Device;
      return static_cast<__u64>(own->fd());
    });
  }
  EXPECT_EQ(Device::try_open(0, O_RDWR), -EBUSY);
  const Device restricted(0, O_WRONLY);  // takes no place
  children.pop_back();
  EXPECT(becomes_true(
      [] {
        const int fd = Device::try_open(0, O_RDWR);
        if (fd >= 0) close(fd);
        return fd >= 0;
      },
      2000));
}

CASE("a dead process's queues point to an empty ring") {
  const Device device;
  WaitingChild child([]() -> __u64 {
    auto* own = new Device;
    auto* ring = new Memory(*own, 65536);
    neuron_ioctl_dma_queue_init request = {5, 4, 1024, 1024, ring->handle(), ring->handle(), 0, 0};
    return own->call(NEURON_IOCTL_DMA_QUEUE_INIT, &request) == 0 ? ring->pa() : 0;
  });
  neuron_dma_queue_state tx = {}, rx = {};
  neuron_ioctl_dma_queue_get_state state = {5, 4, &tx, &rx};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &state), 0);
  EXPECT(child.value() != 0);
  EXPECT_EQ(tx.base_addr, child.value());
  child.stop();
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &state), 0);
  EXPECT(tx.base_addr != child.value());
}

CASE("a child of fork must open the device itself before it may use the old calls") {
  const Device device;
  EXPECT_EQ(exit_status_of_child([&] {
              __u64 handle = 0;
              neuron_ioctl_mem_alloc request = {4096, 0, 0, 0, 0, &handle};
              if (device.call(NEURON_IOCTL_MEM_ALLOC, &request) != -EACCES) return 1;
              const Device own;
              const Memory memory(own, 4096);
              return 0;
            }),
            0);
  const Memory memory(device, 4096);  // the child's end took nothing of ours
}

CASE("another process uses a handle that it was told") {
  const Device device;
  const Memory memory(device, 4096);
  EXPECT_EQ(exit_status_of_child([&] {
              const Device own;
              return own.copy_in(memory.handle(), "told", 4) == 0 ? 0 : 1;
            }),
            0);
  char back[4];
  EXPECT_EQ(device.copy_out(memory.handle(), back, 4), 0);
  EXPECT(std::memcmp(back, "told", 4) == 0);
}

neuron_ioctl_notifications_init_v2 queue_of(uint32_t kind, uint32_t size) {
  neuron_ioctl_notifications_init_v2 request = {};
  request.nq_dev_type = kind;
  request.nq_type = NQ_TYPE_NOTIFY;
  request.engine_index = 1;
  request.size = size;
  request.on_host_memory = 1;
  return request;
}

CASE("a notification queue is made once, found again, and replaced on demand") {
  const Device device;
  auto request = queue_of(NQ_DEVICE_TYPE_NEURON_CORE, 16384);
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &request), 0);
  const __u64 offset = request.mmap_offset;
  {
    const Mapping entries(device, offset, 16384, PROT_READ);
    EXPECT_EQ(entries.word(0), 0);
  }
  auto again = queue_of(NQ_DEVICE_TYPE_NEURON_CORE, 65536);
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &again), 0);
  EXPECT_EQ(again.mmap_offset, offset);
  neuron_ioctl_notifications_init_with_realloc_v2 larger = {};
  larger.nq_type = NQ_TYPE_NOTIFY;
  larger.engine_index = 1;
  larger.size = 65536;
  larger.on_host_memory = 1;
  larger.force_alloc_mem = 1;
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &larger), 0);
  const Mapping entries(device, larger.mmap_offset, 65536, PROT_READ);
  EXPECT_EQ(entries.word(0), 0);
  neuron_ioctl_notifications_destroy destroy = {larger.mmap_offset};
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_DESTROY_V1, &destroy), 0);
}

CASE("notification queues live in device memory and for collectives processors too") {
  const Device device;
  auto request = queue_of(NQ_DEVICE_TYPE_TOPSP, 8192);
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &request), 0);
  request = queue_of(NQ_DEVICE_TYPE_NEURON_CORE, 8192);
  request.engine_index = 2;
  request.on_host_memory = 0;
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &request), 0);
  EXPECT_EQ(request.mmap_offset, -1);
  std::vector<uint8_t> entries(8192, 1);
  EXPECT_EQ(device.copy_out(request.mem_handle, entries.data(), 8192), 0);
}

CASE("notification queues that cannot be are refused") {
  const Device device;
  auto request = queue_of(NQ_DEVICE_TYPE_NEURON_CORE, 5000);
  request.engine_index = 5;
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &request), -EINVAL);
  request = queue_of(2, 4096);
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &request), -ENOSYS);
  neuron_ioctl_notifications_queue_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_NOTIFICATIONS_QUEUE_INFO, &info), -EPERM);
}

CASE("a process has one datastore, others find it by pid, and it goes with the process") {
  const Device device;
  uint32_t child_pid;
  {
    WaitingChild child([]() -> __u64 {
      auto* own = new Device;
      neuron_ioctl_neuron_ds_info info = {};
      if (own->call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info) != 0 || info.size != 262144) return 0;
      const Mapping store(*own, info.mmap_offset, info.size, PROT_READ | PROT_WRITE);
      store.word(0) = 0x0073646e;
      store.word(4096) = 4711;
      return info.mmap_offset;
    });
    child_pid = static_cast<uint32_t>(child.pid());
    neuron_ioctl_neuron_ds_info info = {static_cast<int32_t>(child_pid), 0, 0};
    EXPECT_EQ(device.call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info), 0);
    EXPECT_EQ(info.mmap_offset, child.value());
    const Mapping store(device, info.mmap_offset, info.size, PROT_READ);
    EXPECT_EQ(store.word(4096), 4711);
  }
  neuron_ioctl_neuron_ds_info gone = {static_cast<int32_t>(child_pid), 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &gone), -ENOENT);
  neuron_ioctl_neuron_ds_info own = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &own), 0);
  const __u64 offset = own.mmap_offset;
  EXPECT_EQ(device.call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &own), 0);
  EXPECT_EQ(own.mmap_offset, offset);
  own.pid = getpid();
  EXPECT_EQ(device.call(NEURON_IOCTL_RELEASE_NEURON_DS, &own), 0);
}

CASE("every device of the host works by itself") {
  const unsigned devices = Device::count();
  std::list<Device> open;
  std::list<Memory> memory;
  for (unsigned i = 0; i < devices; ++i) {
    open.emplace_back(i);
    memory.emplace_back(open.back(), 1 << 20);
    const auto bytes = pattern(1 << 20, i);
    EXPECT_EQ(open.back().copy_in(memory.back().handle(), bytes.data(), bytes.size()), 0);
  }
  auto each = memory.begin();
  unsigned i = 0;
  for (const Device& device : open) {
    std::vector<uint8_t> back(1 << 20);
    EXPECT_EQ(device.copy_out(each->handle(), back.data(), back.size()), 0);
    EXPECT(back == pattern(1 << 20, i));
    neuron_ioctl_device_info info = {};
    EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INFO, &info), 0);
    EXPECT_EQ(info.connected_device_count, devices == 16 ? 4 : 0);
    for (unsigned n = 0; n < info.connected_device_count; ++n) {
      EXPECT(info.connected_devices[n] < devices && info.connected_devices[n] != i);
    }
    ++each, ++i;
  }
}

}  // namespace
}  // namespace neuron::guest
