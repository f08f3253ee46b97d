// SPDX-License-Identifier: Apache-2.0
// Arguments that lie, at the edges of memory and of numbers. A call may refuse them, and nothing
// else may happen.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hw/udma.h"
#include "tests/vm/guest/device.h"
#include "tests/vm/guest/robustness_calls.h"

namespace neuron::guest {
namespace {

constexpr size_t kPage = 4096;

// Pages with nothing behind them.
class EdgeOfMemory {
 public:
  explicit EdgeOfMemory(size_t pages) : pages_(pages) {
    at_ = static_cast<uint8_t*>(mmap(nullptr, (pages + 1) * kPage, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT(at_ != MAP_FAILED);
    EXPECT_EQ(munmap(at_ + pages * kPage, kPage), 0);
  }
  ~EdgeOfMemory() { munmap(at_, pages_ * kPage); }
  void* last(size_t bytes) { return end() - bytes; }
  uint8_t* end() { return at_ + pages_ * kPage; }

 private:
  size_t pages_;
  uint8_t* at_;
};

bool still_works() {
  const Device device;
  const Memory memory(device, 65536);
  const auto bytes = pattern(65536, 9);
  std::vector<uint8_t> back(65536);
  return device.copy_in(memory.handle(), bytes.data(), 65536) == 0 &&
         device.copy_out(memory.handle(), back.data(), 65536) == 0 && back == bytes;
}

CASE("an argument that ends where memory ends is read and written only up to there") {
  const Device device;
  for (const Call& call : all_calls()) {
    if (!call.harmless) continue;
    EdgeOfMemory memory(4);
    void* argument = memory.last(call.size);
    std::memset(argument, 0, call.size);
    const int at_edge = device.call(call.number, argument);
    if (at_edge == -EFAULT) {
      // The zeros inside are addresses of nothing; then any place gives the same answer.
      std::vector<__u64> inside(call.size / 8 + 512);
      EXPECT_EQ(device.call(call.number, inside.data()), at_edge);
    }
  }
  EXPECT(still_works());
}

CASE("an argument that is one byte short of its struct is refused") {
  const Device device;
  for (const Call& call : all_calls()) {
    EdgeOfMemory memory(4);
    void* argument = memory.last(call.size - 1);
    std::memset(argument, 0, call.size - 1);
    const int result = device.call(call.number, argument);
    if (result == 0 && call.size > 8) {
      // Calls without effect read nothing.
      const std::string name = call.name;
      if (name != "DMA_ENG_INIT" && name != "DEVICE_INIT" && name != "NOTIFICATIONS_DESTROY_V1" &&
          name != "DMA_QUEUE_RELEASE") {
        throw Failure{name + " succeeded with half an argument"};
      }
    }
  }
  EXPECT(still_works());
}

CASE("no call follows a pointer to nothing or into the kernel") {
  const Device device;
  for (const Call& call : all_calls()) {
    for (const uintptr_t address :
         {uintptr_t{0}, uintptr_t{1}, uintptr_t{0xffff888000000000}, uintptr_t{0xffffffff81000000},
          uintptr_t{0x7ffffffff000}, uintptr_t{0xfffffffffffffff8}}) {
      const int result = device.call(call.number, reinterpret_cast<void*>(address));
      const std::string name = call.name;
      if (result == 0 && name != "DMA_ENG_INIT" && name != "DEVICE_INIT" &&
          name != "NOTIFICATIONS_DESTROY_V1" && name != "DMA_QUEUE_RELEASE") {
        throw Failure{name + " succeeded without an argument"};
      }
    }
  }
  EXPECT(still_works());
}

CASE("answers hold nothing that the call did not put there") {
  const Device device;
  const char* const names[] = {"DEVICE_INFO",       "COMPATIBLE_VERSION",       "DEVICE_BDF",
                               "DEVICE_BASIC_INFO", "DEVICE_BDF_EXT",           "HOST_DEVICE_ID",
                               "DRIVER_INFO_GET",   "HOST_DEVICE_ID_TO_RID_MAP"};
  for (const Call& call : all_calls()) {
    bool wanted = false;
    for (const char* name : names) wanted |= std::strcmp(name, call.name) == 0;
    if (!wanted) continue;
    // What is not written stays as it was; what is written is the same both times.
    std::vector<uint8_t> zeros(call.size, 0), ones(call.size, 0xff);
    if (std::strcmp(call.name, "DEVICE_BDF_EXT") == 0) std::memset(ones.data(), 0, 4);
    EXPECT_EQ(device.call(call.number, zeros.data()), 0);
    EXPECT_EQ(device.call(call.number, ones.data()), 0);
    for (size_t i = 0; i < call.size; ++i) {
      const bool same = zeros[i] == ones[i];
      const bool untouched = zeros[i] == 0 && ones[i] == 0xff;
      if (!same && !untouched) {
        throw Failure{std::string(call.name) + " gives a stray byte at " + std::to_string(i)};
      }
    }
  }
}

CASE("sizes and counts that wrap around are refused") {
  const Device device;
  const Memory memory(device, 65536);
  const Memory other(device, 65536);
  std::vector<uint8_t> bytes(65536);
  for (const __u64 huge : {~0ull, ~0ull - 4095, 1ull << 63, 1ull << 40, 1ull << 32}) {
    EXPECT(device.copy_in(memory.handle(), bytes.data(), huge) != 0);
    EXPECT(device.copy_in(memory.handle(), bytes.data(), 4096, huge) != 0);
    EXPECT(device.copy_out(memory.handle(), bytes.data(), huge, 4096) != 0);
    EXPECT(device.copy(memory.handle(), other.handle(), huge) != 0);
    EXPECT(device.copy(memory.handle(), other.handle(), 4096, huge, 0) != 0);
    EXPECT(device.copy(memory.handle(), other.handle(), 4096, 0, huge) != 0);
    neuron_ioctl_memset64 fill = {memory.handle(), huge, 1, 4096};
    EXPECT(device.call(NEURON_IOCTL_MEMSET64, &fill) != 0);
    fill = {memory.handle(), 4096, 1, huge};
    EXPECT(device.call(NEURON_IOCTL_MEMSET64, &fill) != 0);
    neuron_ioctl_program_engine_nc64 program = {0, device.chip().core_address, bytes.data(), huge,
                                                0};
    EXPECT(device.call(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &program) != 0);
    program = {0, device.chip().core_address, bytes.data(), 64, huge};
    EXPECT(device.call(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &program) != 0);
    neuron_ioctl_dmabuf_fd fd = {huge, huge, nullptr};
    EXPECT(device.call(NEURON_IOCTL_DMABUF_FD, &fd) != 0);
    __u64 handle = 0;
    if (huge > 1ull << 32) EXPECT(allocate(device, huge, {}, handle) != 0);
  }
  __u64 handle = 0;
  EXPECT(allocate(device, 0, {}, handle) != 0);
}

CASE("counts of a hundred and more registers, and addresses outside of the device, are refused") {
  const Device device;
  neuron_ioctl_device_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  std::vector<__u64> addresses(200, info.bar_address[0]);
  std::vector<uint32_t> data(200);
  for (const uint32_t count : {101u, 0x20000000u, ~0u}) {
    neuron_ioctl_bar_rw request = {0, addresses.data(), data.data(), count};
    EXPECT_EQ(device.call(NEURON_IOCTL_BAR_READ, &request), -EINVAL);
    EXPECT_EQ(device.call(NEURON_IOCTL_BAR_WRITE, &request), -EINVAL);
    neuron_ioctl_read_hw_counters counters = {addresses.data(), data.data(), count};
    EXPECT(device.call(NEURON_IOCTL_READ_HW_COUNTERS, &counters) < 0);
  }
  for (const __u64 wrong :
       {__u64{0}, info.bar_address[0] - 4, info.bar_address[0] + info.bar_size[0], ~__u64{3},
        __u64{0xffffffff81000000}}) {
    addresses[0] = wrong;
    neuron_ioctl_bar_rw request = {0, addresses.data(), data.data(), 1};
    EXPECT_EQ(device.call(NEURON_IOCTL_BAR_READ, &request), -EINVAL);
    EXPECT_EQ(device.call(NEURON_IOCTL_BAR_WRITE, &request), -EINVAL);
  }
  for (const uint32_t bar : {1u, 2u, 4u, 5u, ~0u}) {
    addresses[0] = info.bar_address[0];
    neuron_ioctl_bar_rw request = {bar, addresses.data(), data.data(), 1};
    EXPECT_EQ(device.call(NEURON_IOCTL_BAR_READ, &request), -EINVAL);
  }
}

CASE("engines, queues, cores, semaphores and events that do not exist are refused") {
  const Device device;
  neuron_dma_queue_state tx, rx;
  neuron_dma_eng_state state;
  for (const uint32_t engine : {device.chip().engines, 4096u, ~0u}) {
    neuron_ioctl_dma_queue_get_state queue = {engine, 0, &tx, &rx};
    EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &queue) < 0);
    neuron_ioctl_dma_eng_get_state get = {engine, &state};
    EXPECT(device.call(NEURON_IOCTL_DMA_ENG_GET_STATE, &get) < 0);
    neuron_ioctl_dma_eng_set_state set = {engine, 0};
    EXPECT(device.call(NEURON_IOCTL_DMA_ENG_SET_STATE, &set) < 0);
    neuron_ioctl_dma_queue_copy_start start = {engine, 0, 1, 1};
    EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start) < 0);
    neuron_ioctl_dma_ack_completed ack = {engine, 0, 1};
    EXPECT(device.call(NEURON_IOCTL_DMA_ACK_COMPLETED, &ack) < 0);
  }
  for (const uint32_t queue : {16u, 1u << 20, ~0u}) {
    neuron_ioctl_dma_queue_get_state request = {0, queue, &tx, &rx};
    EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &request) < 0);
    neuron_ioctl_dma_queue_copy_start start = {0, queue, 1, 1};
    EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start) < 0);
  }
  for (const uint32_t index : {256u, 4096u, ~0u}) {
    neuron_ioctl_event event = {0, index, 1};
    EXPECT(device.call(NEURON_IOCTL_EVENT_SET, &event) < 0);
    neuron_ioctl_semaphore semaphore = {0, index, 1};
    EXPECT(device.call(NEURON_IOCTL_SEMAPHORE_WRITE, &semaphore) < 0);
  }
  for (const uint32_t core : {device.chip().cores, 64u, ~0u}) {
    neuron_ioctl_event event = {core, 0, 1};
    EXPECT(device.call(NEURON_IOCTL_EVENT_SET, &event) < 0);
    neuron_ioctl_crwl lock = {};
    lock.nc_id = core;
    EXPECT(device.call(NEURON_IOCTL_CRWL_READER_EXIT, &lock) < 0);
    neuron_ioctl_cinit_set init = {core, 1, 0};
    EXPECT(device.call(NEURON_IOCTL_CINIT_SET_STATE, &init) < 0);
  }
}

CASE("a queue without rings cannot be started") {
  const Device device;
  const Memory ring(device, 4096, {.host = true});
  neuron_ioctl_dma_queue_copy_start start = {9, 9, 1, 1};
  EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start) < 0);
  neuron_ioctl_dma_queue_init half = {9, 9, 32, 32, ring.handle(), 0, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_INIT, &half), 0);
  EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start) < 0);
  neuron_ioctl_dma_descriptor_copyout out = {9, 9, NEURON_DMA_QUEUE_TYPE_RX, 0, 1, &start};
  EXPECT(device.call(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &out) < 0);
}

CASE("a ring of 96 descriptors is acknowledged like any other") {
  const Device device;
  const Memory ring(device, 4096, {.host = true});
  neuron_ioctl_dma_queue_init init = {9, 9, 96, 96, ring.handle(), ring.handle(), 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_INIT, &init), 0);
  neuron_ioctl_dma_ack_completed ack = {9, 9, 100};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_ACK_COMPLETED, &ack), 0);
}

CASE("lists whose length the caller invents are refused or cut") {
  const Device device;
  EdgeOfMemory room(1);
  neuron_ioctl_dump_mem_chunks chunks = {0, ~0u, 0, nullptr};
  EXPECT(device.call(NEURON_IOCTL_DUMP_MEM_CHUNKS, &chunks) != 0);
  chunks.hbm_index = 99;
  EXPECT(device.call(NEURON_IOCTL_DUMP_MEM_CHUNKS, &chunks) < 0);
  const Memory ring(device, 4096, {.host = true});
  neuron_ioctl_dma_copy_descriptors64 put = {ring.handle(), room.end() - 16, ~0u, 0,
                                             NEURON_DMA_QUEUE_TYPE_TX};
  EXPECT(device.call(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put) != 0);
  put.num_descs = 2;  // the second lies behind the end of memory
  EXPECT(device.call(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put) != 0);
  neuron_memcpy_batch_t batch = {};
  neuron_ioctl_mem_buf_copy64zc_batches batches = {};
  batches.batches_ptr = &batch;
  batches.num_batches = ~0u;
  EXPECT(device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &batches) != 0);
  batch.num_ops = ~0u;
  batches.num_batches = 1;
  EXPECT(device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &batches) != 0);
  std::vector<neuron_ioctl_dma_queue_init_batch> queues(1);
  queues[0].count = ~0u;
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, queues.data()), -E2BIG);
  neuron_ioctl_printk nothing = {room.end() - 1, 0, 0};
  EXPECT(device.call(NEURON_IOCTL_PRINTK, &nothing) < 0);
  EXPECT(still_works());
}

CASE("zero-copy works only on memory that the caller may use so") {
  const Device device;
  const Memory memory(device, 1 << 20);
  EdgeOfMemory room(16);
  const bool old = !device.has_zero_copy_of_2_25();
  const auto move = [&](void* at, __u64 size, bool in) {
    if (old) {
      neuron_ioctl_mem_buf_copy64 request = {memory.handle(), at, size, 0, in};
      return device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24, &request);
    }
    neuron_ioctl_mem_buf_copy64zc request = {memory.handle(), at, size, 0, in, 0, -1, 0};
    return device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64, &request);
  };
  EXPECT_EQ(move(room.last(65536), 65536, true), 0);
  EXPECT(move(room.last(65536), 65537, true) != 0);
  EXPECT(move(nullptr, 4096, true) != 0);
  EXPECT(move(reinterpret_cast<void*>(0xffff888000000000), 4096, true) != 0);
  EXPECT(move(reinterpret_cast<void*>(~0ull - 100), 4096, false) != 0);
  void* constant = mmap(nullptr, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(move(constant, 65536, true), 0);
  EXPECT(move(constant, 65536, false) != 0);
  for (int i = 0; i < 65536; i += 4096) EXPECT_EQ(static_cast<char*>(constant)[i], 0);
  munmap(constant, 65536);
  EXPECT(still_works());
}

CASE("memory of the driver cannot be freed by a program that finds its handle") {
  const Device device;
  neuron_ioctl_mem_get_mc_mmap_info_v2 found = {device.chip().hbm_base(0) + 4096, 0, 0, 0};
  if (device.call(NEURON_IOCTL_MEM_MC_GET_INFO_V2, &found) != 0) return;
  neuron_ioctl_mem_free request = {found.mem_handle};
  device.call(NEURON_IOCTL_MEM_FREE, &request);
  device.call(NEURON_IOCTL_MEM_FREE, &request);
  EXPECT(device.has_chunk(0, device.chip().hbm_base(0)));
  EXPECT(still_works());
}

}  // namespace
}  // namespace neuron::guest
