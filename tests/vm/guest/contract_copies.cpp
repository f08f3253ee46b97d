// SPDX-License-Identifier: Apache-2.0
// Copies through the driver: user buffers, handles, fills, zero-copy, asynchronous ones.
#include <cerrno>
#include <cstring>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

constexpr __u64 kMiB = 1 << 20;

CASE("a user buffer goes into device memory and comes back, whatever its size and place") {
  const Device device;
  const Memory memory(device, 8 * kMiB);
  for (const __u64 size : {1ull, 63ull, 4096ull, 65535ull, 65536ull, 65537ull, 5 * kMiB + 13}) {
    for (const __u64 offset : {0ull, 17ull, 65536ull}) {
      const auto bytes = pattern(size, static_cast<uint32_t>(size + offset));
      std::vector<uint8_t> back(size);
      EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), size, offset), 0);
      EXPECT_EQ(device.copy_out(memory.handle(), back.data(), size, offset), 0);
      EXPECT(back == bytes);
    }
  }
}

CASE("every core's queue copies to every HBM") {
  const Device device;
  for (uint32_t core = 0; core < device.chip().cores; ++core) {
    for (uint32_t channel = 0; channel < device.chip().hbm_count; ++channel) {
      const Memory memory(device, 100000, {.channel = channel, .core = core});
      const auto bytes = pattern(100000, core * 7 + channel);
      std::vector<uint8_t> back(bytes.size());
      EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), bytes.size()), 0);
      EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
      EXPECT(back == bytes);
    }
  }
}

CASE("the 32-bit forms of the copies do the same") {
  const Device device;
  const Memory from(device, 65536), to(device, 65536);
  const auto bytes = pattern(65536, 21);
  std::vector<uint8_t> back(65536);
  neuron_ioctl_mem_buf_copy in = {from.handle(), const_cast<uint8_t*>(bytes.data()), 65536, 0, 1};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_BUF_COPY, &in), 0);
  neuron_ioctl_mem_copy copy = {from.handle(), to.handle(), 65536, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY, &copy), 0);
  neuron_ioctl_mem_buf_copy out = {to.handle(), back.data(), 65536, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_BUF_COPY, &out), 0);
  EXPECT(back == bytes);
}

CASE("handles copy to handles, host and device in every combination") {
  const Device device;
  const auto bytes = pattern(3 * kMiB, 30);
  for (const bool host_from : {false, true}) {
    for (const bool host_to : {false, true}) {
      const __u64 size = host_from || host_to ? kMiB : 3 * kMiB;
      const Memory from(device, size, {.host = host_from});
      const Memory to(device, size, {.host = host_to});
      EXPECT_EQ(device.copy_in(from.handle(), bytes.data(), size), 0);
      EXPECT_EQ(device.copy(from.handle(), to.handle(), size - 4096, 100, 4000), 0);
      std::vector<uint8_t> back(size - 4096);
      EXPECT_EQ(device.copy_out(to.handle(), back.data(), back.size(), 4000), 0);
      EXPECT(std::memcmp(back.data(), bytes.data() + 100, back.size()) == 0);
    }
  }
}

CASE("copies that leave an allocation are refused") {
  const Device device;
  const Memory memory(device, 65536), other(device, 65536);
  std::vector<uint8_t> bytes(70000);
  EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), 65537), -EINVAL);
  EXPECT_EQ(device.copy_out(memory.handle(), bytes.data(), 4096, 65536), -EINVAL);
  EXPECT_EQ(device.copy(memory.handle(), other.handle(), 65536, 1, 0), -EINVAL);
  EXPECT_EQ(device.copy(memory.handle(), other.handle(), 65536, 0, 1), -EINVAL);
  EXPECT_EQ(device.copy(memory.handle(), 4000000, 4096), -EINVAL);
  EXPECT_EQ(device.copy_in(4000000, bytes.data(), 4096), -EINVAL);
}

CASE("a fill writes its byte everywhere and nowhere else") {
  const Device device;
  const Memory memory(device, 2 * kMiB);
  std::vector<uint8_t> wanted = pattern(2 * kMiB, 40);
  EXPECT_EQ(device.copy_in(memory.handle(), wanted.data(), wanted.size()), 0);
  neuron_ioctl_memset64 fill = {memory.handle(), 4096, 0x1a5, kMiB + 77};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEMSET64, &fill), 0);
  std::memset(wanted.data() + 4096, 0xa5, kMiB + 77);
  neuron_ioctl_memset old = {memory.handle(), 0, 0x3c, 16};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEMSET, &old), 0);
  std::memset(wanted.data(), 0x3c, 16);
  std::vector<uint8_t> back(wanted.size());
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
  EXPECT(back == wanted);
  fill.size = 2 * kMiB;
  EXPECT_EQ(device.call(NEURON_IOCTL_MEMSET64, &fill), -EINVAL);
}

int zero_copy(const Device& device, __u64 handle, void* bytes, __u64 size, __u64 offset, bool in) {
  if (!device.has_zero_copy_of_2_25()) {
    neuron_ioctl_mem_buf_copy64 request = {handle, bytes, size, offset, in};
    return device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24, &request);
  }
  neuron_ioctl_mem_buf_copy64zc request = {
      handle, bytes, size, offset, in, 0, NEURON_DMA_H2T_DEFAULT_QID, 0};
  return device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64, &request);
}

CASE("zero-copy moves whole buffers that start and end anywhere in a page") {
  const Device device;
  const Memory memory(device, 4 * kMiB);
  for (const __u64 size : {100ull, 4096ull, 65536ull, 3 * kMiB + 123}) {
    auto room = pattern(size + 64, static_cast<uint32_t>(size));
    std::vector<uint8_t> back(size + 64);
    const int error = zero_copy(device, memory.handle(), room.data() + 13, size, 256, true);
    if (error == -EINVAL && device.has_zero_copy_of_2_25() && device.chip().architecture == 2) {
      throw Skipped{"this driver has no zero-copy on generation 2"};
    }
    EXPECT_EQ(error, 0);
    EXPECT_EQ(zero_copy(device, memory.handle(), back.data() + 29, size, 256, false), 0);
    EXPECT(std::memcmp(back.data() + 29, room.data() + 13, size) == 0);
  }
  uint8_t byte = 0;
  EXPECT(zero_copy(device, memory.handle(), &byte, 4096, 4 * kMiB, true) < 0);
}

CASE("batches of zero-copy transfers run in order") {
  const Device device;
  if (!device.has_zero_copy_of_2_25()) throw Skipped{"this driver has no batches"};
  const Memory memory(device, kMiB);
  auto bytes = pattern(kMiB, 50);
  nrt_tensor_batch_op_t ops[2] = {};
  ops[0] = {0, 500000, bytes.data()};
  ops[1] = {500000, kMiB - 500000, bytes.data() + 500000};
  neuron_memcpy_batch_t batch = {};
  batch.mem_handle = memory.handle();
  batch.ops_ptr = ops;
  batch.num_ops = 2;
  neuron_ioctl_mem_buf_copy64zc_batches request = {};
  request.batches_ptr = &batch;
  request.num_batches = 1;
  request.is_copy_to_device = 1;
  request.h2t_qid = NEURON_DMA_H2T_DEFAULT_QID;
  const int error = device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &request);
  if (error == -EINVAL && device.chip().architecture == 2) {
    throw Skipped{"this driver has no zero-copy on generation 2"};
  }
  EXPECT_EQ(error, 0);
  std::vector<uint8_t> back(kMiB);
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), kMiB), 0);
  EXPECT(back == bytes);
  request.num_batches = 0;
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &request), -EINVAL);
}

CASE("asynchronous copies alternate between two names and can be waited for") {
  const Device device;
  const Memory from(device, kMiB), to(device, kMiB);
  const auto bytes = pattern(kMiB, 60);
  EXPECT_EQ(device.copy_in(from.handle(), bytes.data(), kMiB), 0);
  neuron_ioctl_mem_copy_async64 first = {};
  first.src_mem_handle = from.handle();
  first.dst_mem_handle = to.handle();
  first.size = kMiB / 2;
  first.pwait_handle = static_cast<uint32_t>(NEURON_DMA_H2T_CTX_HANDLE_NONE);
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY_ASYNC64, &first), 0);
  EXPECT_EQ(first.wait_handle, NEURON_DMA_H2T_CTX_HANDLE_ASYNC1);
  neuron_ioctl_mem_copy_async64 second = first;
  second.src_offset = second.dst_offset = kMiB / 2;
  second.pwait_handle = first.wait_handle;
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY_ASYNC64, &second), 0);
  EXPECT_EQ(second.wait_handle, NEURON_DMA_H2T_CTX_HANDLE_ASYNC2);
  neuron_ioctl_mem_copy_async_wait wait = {from.handle(), to.handle(), second.wait_handle};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, &wait), 0);
  std::vector<uint8_t> back(kMiB);
  EXPECT_EQ(device.copy_out(to.handle(), back.data(), kMiB), 0);
  EXPECT(back == bytes);
  second.size = 128 * kMiB;
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY_ASYNC64, &second), -EINVAL);
}

CASE("a buffer that a copy is asked to fault in keeps its bytes") {
  const Device device;
  const Memory from(device, kMiB), to(device, kMiB);
  auto buffer = pattern(kMiB, 65);
  const auto wanted = buffer;
  neuron_ioctl_mem_copy_async64 request = {};
  request.src_mem_handle = from.handle();
  request.dst_mem_handle = to.handle();
  request.size = kMiB;
  request.host_prefetch_addr = reinterpret_cast<__u64>(buffer.data());
  request.pwait_handle = static_cast<uint32_t>(NEURON_DMA_H2T_CTX_HANDLE_NONE);
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY_ASYNC64, &request), 0);
  neuron_ioctl_mem_copy_async_wait wait = {from.handle(), to.handle(), request.wait_handle};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, &wait), 0);
  EXPECT(buffer == wanted);
}

CASE("a copy of many rings' worth of descriptors arrives whole") {
  const Device device;
  const Memory from(device, 64 * kMiB), to(device, 64 * kMiB, {.channel = 1, .core = 1});
  const auto bytes = pattern(kMiB, 70);
  for (__u64 at = 0; at < 64 * kMiB; at += kMiB) {
    EXPECT_EQ(device.copy_in(from.handle(), bytes.data(), kMiB - 1, at), 0);
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(device.copy(from.handle(), to.handle(), 64 * kMiB), 0);
  std::vector<uint8_t> back(kMiB - 1);
  for (__u64 at = 0; at < 64 * kMiB; at += 9 * kMiB) {
    EXPECT_EQ(device.copy_out(to.handle(), back.data(), back.size(), at), 0);
    EXPECT(std::memcmp(back.data(), bytes.data(), back.size()) == 0);
  }
}

CASE("scrubbing an HBM that does not exist is refused") {
  const Device device;
  neuron_ioctl_hbm_scrub_start start = {0, 9, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_HBM_SCRUB_START, &start), -EPERM);
  neuron_ioctl_hbm_scrub_wait wait = {0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_HBM_SCRUB_WAIT, &wait), -EPERM);
}

}  // namespace
}  // namespace neuron::guest
