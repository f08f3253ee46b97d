// SPDX-License-Identifier: Apache-2.0
// The driver library on a real kernel driver: copies, also through io_uring, registers, fork.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "driver/ndl/error.h"
#include "driver/ndl/port.h"
#include "ndl/ndl.h"
#include "tests/vm/guest/check.h"

namespace neuron::guest {
namespace {

class Library {
 public:
  Library() {
    if (ndl_open_device(0, nullptr, &device_) != 0) throw Failure{ndl::last_error()};
  }
  ~Library() { ndl_close_device(device_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ndl_device_t* device() const { return device_; }
  uint64_t allocate(uint64_t size, bool host = false) const {
    uint64_t handle = 0;
    const uint32_t type =
        host ? NEURON_MEMALLOC_TYPE_MISC_HOST : NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
    if (ndl_memory_alloc(device_, size, 0, host ? 1 : 0, 0, 0, 0, type, &handle) != 0) {
      throw Failure{ndl::last_error()};
    }
    return handle;
  }

 private:
  ndl_device_t* device_ = nullptr;
};

std::vector<uint8_t> pattern(size_t size, unsigned seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + (i >> 11) + seed);
  return bytes;
}

bool has_io_uring() {
  for (int fd = 3; fd < 64; ++fd) {
    char target[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (readlink(link.c_str(), target, sizeof(target) - 1) > 0 &&
        std::strstr(target, "io_uring") != nullptr) {
      return true;
    }
  }
  return false;
}

// Ours has commands for io_uring, the public driver none.
bool is_ours() { return access("/sys/module/neuron/parameters/zerocopy_trn1_override", F_OK) == 0; }

CASE("buffers go through the bounce buffer, without it, and in batches") {
  const Library library;
  const uint64_t handle = library.allocate(4 << 20);
  const auto in = pattern(3 << 20, 1);
  std::vector<uint8_t> out(in.size());
  void* from = const_cast<uint8_t*>(in.data());
  EXPECT_EQ(ndl_memory_buf_copyin(handle, from, 4096, in.size()), 0);
  EXPECT_EQ(ndl_memory_buf_zerocopyout(handle, out.data(), 4096, out.size(), -1), 0);
  EXPECT(out == in);
  EXPECT_EQ(ndl_memory_buf_zerocopyin(handle, from, 77, in.size(), -1, 0), 0);
  std::fill(out.begin(), out.end(), 0);
  EXPECT_EQ(ndl_memory_buf_copyout(handle, out.data(), 77, out.size()), 0);
  EXPECT(out == in);
  const nrt_tensor_batch_op_t ops[] = {{0, 5000, from}, {8192, 70000, out.data() + 5000}};
  neuron_memcpy_batch_t batch = {};
  batch.mem_handle = handle;
  batch.ops_ptr = ops;
  batch.num_ops = 2;
  EXPECT_EQ(ndl_memory_buf_batch_copy(&batch, 1, 1, -1), 0);
  std::fill(out.begin(), out.end(), 0);
  EXPECT_EQ(ndl_memory_buf_copyout(handle, out.data(), 8192, 70000), 0);
  EXPECT(std::memcmp(out.data(), in.data() + 5000, 70000) == 0);
  EXPECT_EQ(ndl_memory_free(handle), 0);
}

CASE("asynchronous copies alternate, through io_uring where the driver has it") {
  const Library library;
  const uint64_t a = library.allocate(8 << 20), b = library.allocate(8 << 20);
  const uint64_t host = library.allocate(1 << 20, true);
  const auto in = pattern(8 << 20, 3);
  std::vector<uint8_t> out(in.size()), touched(1 << 20);
  EXPECT_EQ(ndl_memory_buf_copyin(a, const_cast<uint8_t*>(in.data()), 0, in.size()), 0);
  int name = -1;
  for (uint64_t at = 0; at < in.size(); at += 1 << 20) {
    const int before = name;
    EXPECT_EQ(ndl_memory_copy_as(a, b, at, at, 1 << 20, reinterpret_cast<uint64_t>(touched.data()),
                                 &name),
              0);
    EXPECT_EQ(name, before == 1 ? 2 : 1);
  }
  EXPECT_EQ(ndl_memory_copy_as_wait(b, name), 0);
  EXPECT_EQ(ndl_memory_buf_copyout(b, out.data(), 0, out.size()), 0);
  EXPECT(out == in);
  name = 0;
  EXPECT_EQ(ndl_memory_copy_as(b, host, 4096, 0, 1 << 20, 0, &name), 0);
  EXPECT_EQ(name, 0);
  EXPECT_EQ(ndl_memory_buf_copyout(host, out.data(), 0, 1 << 20), 0);
  EXPECT(std::memcmp(out.data(), in.data() + 4096, 1 << 20) == 0);
  EXPECT_EQ(has_io_uring(), is_ours());
}

CASE("registers of a core are read and written through their mapping, and waited for") {
  const Library library;
  ndl::DevicePort* port = ndl::device_port(library.device());
  EXPECT(port != nullptr);
  const uint64_t window = library.device()->device_type == 2 ? 0 : 0xD0000000;
  const uint64_t block = window + 0x2700000;
  uint32_t value = 0;
  EXPECT_EQ(port->write_register(block + 0x1400 + 4 * 9, 40, false), 0);
  EXPECT_EQ(port->write_register(block + 0x1800 + 4 * 9, 2, false), 0);
  EXPECT_EQ(port->read_register(block + 0x1000 + 4 * 9, &value), 0);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(ndl_nc_semaphore_read(library.device(), 0, 9, &value), 0);
  EXPECT_EQ(value, 42);
  EXPECT(port->write_register(0x30601038, 1, false) < 0 || library.device()->device_type != 2);
  const uint32_t word = 5;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t soon = static_cast<uint64_t>(now.tv_sec) * 1000000000 + now.tv_nsec + 20000000;
  EXPECT_EQ(port->wait(0, &word, 5, soon), -ETIMEDOUT);
  EXPECT_EQ(port->wait(0, &word, 4, soon), 0);
}

CASE("mappings of host and device memory show what copies see") {
  const Library library;
  for (const bool host : {false, true}) {
    const uint64_t handle = library.allocate(65536, host);
    void* at = nullptr;
    EXPECT_EQ(ndl_memory_map(handle, &at), 0);
    const auto in = pattern(65536, 8);
    std::vector<uint8_t> out(65536);
    EXPECT_EQ(ndl_memory_buf_copyin(handle, const_cast<uint8_t*>(in.data()), 0, in.size()), 0);
    EXPECT(std::memcmp(at, in.data(), in.size()) == 0);
    std::memset(at, 0x5A, 100);
    EXPECT_EQ(ndl_memory_buf_copyout(handle, out.data(), 0, 100), 0);
    EXPECT_EQ(out[99], 0x5A);
    int exported = -1;
    EXPECT(ndl_get_dmabuf_fd(reinterpret_cast<uint64_t>(at), 65536, &exported) == 0 || host);
    if (exported >= 0) close(exported);
    EXPECT_EQ(ndl_memory_free(handle), 0);
  }
}

CASE("a child of fork owns nothing, opens the device itself, and the parent goes on") {
  const Library library;
  const uint64_t a = library.allocate(65536), b = library.allocate(65536);
  int name = -1;
  EXPECT_EQ(ndl_memory_copy_as(a, b, 0, 0, 65536, 0, &name), 0);
  const pid_t child = fork();
  if (child == 0) {
    int other = name;
    if (ndl_memory_copy_as(a, b, 0, 0, 65536, 0, &other) >= 0) _exit(1);
    ndl_device_t* device = nullptr;
    if (ndl_open_device(0, nullptr, &device) != 0) _exit(2);
    uint64_t handle = 0;
    if (ndl_memory_alloc(device, 4096, 0, 0, 0, 0, 0, 9, &handle) != 0) _exit(3);
    int fresh = -1;
    if (!is_ours()) _exit(0);  // the public driver's names are those of all processes
    if (ndl_memory_copy_as(handle, handle, 0, 2048, 2048, 0, &fresh) != 0) _exit(4);
    if (ndl_memory_copy_as_wait(handle, fresh) != 0) _exit(5);
    _exit(ndl_close_device(device) == 0 ? 0 : 6);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ndl_memory_copy_as_wait(b, name), 0);
  name = -1;
  EXPECT_EQ(ndl_memory_copy_as(b, a, 0, 0, 65536, 0, &name), 0);
  EXPECT_EQ(ndl_memory_copy_as_wait(a, name), 0);
}

}  // namespace
}  // namespace neuron::guest
