// SPDX-License-Identifier: Apache-2.0
// What becomes of calls when the kernel runs out of memory in the middle of them, or when user
// memory cannot be read: each call is made again and again, and fails first at the first place
// that can, then at the second, until it gets through. For kernels with fault injection only.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

constexpr int kMostPlaces = 2000;

void set(const std::string& file, const char* value) {
  std::ofstream stream("/sys/kernel/debug/" + file);
  EXPECT(stream << value << std::flush);
}

// The next failure of this thread: of the n-th thing that can fail, counted from now.
class Failing {
 public:
  Failing() : fd_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC)) {
    EXPECT(fd_ >= 0);
    for (const char* kind : {"failslab", "fail_page_alloc", "fail_usercopy"}) {
      set(std::string(kind) + "/verbose", "0");
    }
    set("failslab/ignore-gfp-wait", "N");
    set("fail_page_alloc/ignore-gfp-wait", "N");
    set("fail_page_alloc/min-order", "0");
  }
  ~Failing() { close(fd_); }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

  // True if something failed.
  template <typename Run>
  bool at(int n, const Run& run) const {
    char text[16] = {};
    EXPECT(pwrite(fd_, text, static_cast<size_t>(std::snprintf(text, sizeof(text), "%d", n)), 0) >
           0);
    run();
    // Where `run` has fewer places, one of the question's own may be what fails.
    const bool told = pread(fd_, text, sizeof(text) - 1, 0) > 0;
    const bool failed = told && std::atoi(text) == 0;
    EXPECT(pwrite(fd_, "0", 1, 0) == 1 || pwrite(fd_, "0", 1, 0) == 1);
    return failed;
  }

 private:
  int fd_;
};

__u64 allocated(const Device& device) {
  __u64 sum = 0;
  for (uint32_t hbm = 0; hbm < device.chip().hbm_count; ++hbm) {
    for (const auto& chunk : device.chunks(hbm)) sum += chunk.size;
  }
  return sum;
}

__u64 host_memory() {
  __u64 value = 0;
  std::ifstream file("/sys/class/neuron_device/neuron0/stats/memory_usage/host_mem/tensors/total");
  EXPECT(file >> value);
  return value;
}

// Runs it with each failure; a descriptor that it opens it closes.
template <typename Run>
void survives(const char* what, const Run& run) {
  const Failing failing;
  int places = 0;
  while (places < kMostPlaces && failing.at(places + 1, run)) ++places;
  std::printf("# %s: %d places\n", what, places);
  EXPECT(places < kMostPlaces);
}

// Thousands of places: every one of the first, and some of the later ones.
CASE("the module is loaded, or not, when something fails meanwhile, and goes again") {
  const int file = open("/vm/neuron.ko", O_RDONLY | O_CLOEXEC);
  EXPECT(file >= 0);
  const Failing failing;
  int tries = 0, loaded = 0, refused = 0;
  bool failed = true;
  for (int place = 1; failed; place += 1 + place / 12, ++tries) {
    alarm(600);  // for each, not for all of them
    long result = 0;
    failed = failing.at(place, [&] {
      result = syscall(SYS_finit_module, file, "mempool_host_memory_size=4194304", 0);
    });
    ++(result == 0 ? loaded : refused);
    if (result == 0) EXPECT_EQ(syscall(SYS_delete_module, "neuron", O_NONBLOCK), 0);
  }
  std::printf("# %d tries, %d refused\n", tries, refused);
  EXPECT(refused > 0 && loaded > 0);
  EXPECT_EQ(syscall(SYS_finit_module, file, "mempool_host_memory_size=4194304", 0), 0);
  close(file);
  EXPECT(becomes_true([] { return Device::count() == 1; }, 10000));
  for (const char* kind : {"nc_mmap", "dma_wait", "mc_alloc", "fwio_read", "fwio_post_metric"}) {
    set(std::string("neuron/fail_") + kind + "/verbose", "0");
  }
}

CASE("opening and closing") {
  const Device watcher;
  int opened = 0, refused = 0;
  survives("open", [&] {
    const int fd = open("/dev/neuron0", O_RDWR | O_CLOEXEC);
    ++(fd >= 0 ? opened : refused);
    if (fd >= 0) close(fd);
  });
  EXPECT(opened > 0 && refused > 0);
}

CASE("allocations of host and device memory, their mappings and exports") {
  const Device device;
  const __u64 before = allocated(device), host_before = host_memory();
  for (const bool host : {false, true}) {
    const Where where = {.host = host};
    survives(host ? "host memory" : "device memory", [&] {
      __u64 handle = 0;
      if (allocate(device, 65536, where, handle) != 0) return;
      neuron_ioctl_mem_get_extended_info info = {};
      info.mem_handle = handle;
      if (device.call(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info) == 0) {
        try {
          const Mapping mapping(device, info.mmap_offset, 65536, PROT_READ | PROT_WRITE);
          int32_t fd = -1;
          neuron_ioctl_dmabuf_fd request = {reinterpret_cast<__u64>(mapping.bytes()), 65536, &fd};
          device.call(NEURON_IOCTL_DMABUF_FD, &request);
          if (fd >= 0) close(fd);
        } catch (const Failure&) {
          // The mapping was what failed.
        }
      }
      neuron_ioctl_mem_free request = {handle};
      device.call(NEURON_IOCTL_MEM_FREE, &request);
    });
  }
  // A call may have failed after its work was done: then the handle is known to nobody.
  EXPECT(allocated(device) >= before && host_memory() >= host_before);
}

CASE("copies of all kinds") {
  const Device device;
  const Memory memory(device, 1 << 20), other(device, 1 << 20, {.core = 1});
  std::vector<uint8_t> bytes(1 << 20);
  survives("writing", [&] { device.copy_in(memory.handle(), bytes.data(), 300000, 13); });
  survives("reading", [&] { device.copy_out(memory.handle(), bytes.data(), 300000, 13); });
  survives("copying", [&] { device.copy(memory.handle(), other.handle(), 1 << 20); });
  survives("filling", [&] {
    neuron_ioctl_memset64 fill = {memory.handle(), 0, 7, 1 << 20};
    device.call(NEURON_IOCTL_MEMSET64, &fill);
  });
}

CASE("queues, notification queues, datastores, resets and questions") {
  const Device device;
  const Memory ring(device, 65536);
  survives("a DMA queue", [&] {
    neuron_ioctl_dma_queue_init request = {5, 4, 1024, 1024, ring.handle(), ring.handle(), 0, 0};
    device.call(NEURON_IOCTL_DMA_QUEUE_INIT, &request);
  });
  survives("a notification queue", [&] {
    neuron_ioctl_notifications_init_with_realloc_v2 request = {};
    request.nq_type = NQ_TYPE_NOTIFY;
    request.engine_index = 1;
    request.size = 16384;
    request.on_host_memory = 1;
    request.force_alloc_mem = 1;
    device.call(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &request);
  });
  survives("further copy queues", [&] {
    neuron_ioctl_h2t_dma_alloc_queues request = {};
    request.copy_queue_cnt = 2;
    request.service_queue_cnt = 1;
    if (device.call(NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES, &request) != 0) return;
    neuron_ioctl_h2t_dma_free_queues back = {};
    back.queue_bmap = request.copy_queue_bmap | request.service_queue_bmap;
    device.call(NEURON_IOCTL_H2T_DMA_FREE_QUEUES, &back);
  });
  survives("a datastore", [&] {
    neuron_ioctl_neuron_ds_info info = {};
    device.call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info);
    device.call(NEURON_IOCTL_RELEASE_NEURON_DS, &info);
  });
  survives("a list of memory", [&] {
    std::vector<neuron_ioctl_mem_chunk_info> list(64);
    neuron_ioctl_dump_mem_chunks request = {};
    request.num_entries_in = 64;
    request.data = list.data();
    device.call(NEURON_IOCTL_DUMP_MEM_CHUNKS, &request);
  });
  survives("a reset", [&] {
    neuron_ioctl_device_reset request = {3, 0};
    device.call(NEURON_IOCTL_NC_RESET, &request);
    neuron_ioctl_device_ready ready = {static_cast<__u32>(getpid()), 1};
    device.call(NEURON_IOCTL_NC_RESET_READY, &ready);
  });
}

CASE("after all of that the device works and holds nothing") {
  const Device device;
  const Memory memory(device, 1 << 20);
  const auto bytes = pattern(1 << 20, 3);
  std::vector<uint8_t> back(bytes.size());
  EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
  EXPECT(back == bytes);
  __u64 expected = memory.size();
  for (uint32_t hbm = 0; hbm < device.chip().hbm_count; ++hbm) expected += 16 << 20;
  EXPECT_EQ(allocated(device), expected);
  EXPECT_EQ(host_memory(), 0);
}

}  // namespace
}  // namespace neuron::guest
