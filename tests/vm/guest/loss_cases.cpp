// SPDX-License-Identifier: Apache-2.0
// The chip goes away while it is used: registers read all ones and nothing completes any more.
// Every call must come back, in seconds, with an error; nothing may crash or hang.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerCall = 10;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Stays open over all cases, as the descriptor of a program that does not know yet.
const Device& open_before() {
  static const Device device;
  return device;
}

CASE("copies work until the chip goes, and the first one after that fails in time") {
  const Device& device = open_before();
  const Memory memory(device, 1 << 20);
  std::vector<uint8_t> bytes(1 << 20);
  const auto start = Clock::now();
  int error = 0;
  double last = 0;
  int copies = 0;
  // The chip goes after a number of accesses, which a debug kernel on a busy host makes slowly.
  for (; error == 0 && since(start) < 120; ++copies) {
    const auto before = Clock::now();
    error = device.copy_in(memory.handle(), bytes.data(), bytes.size());
    last = since(before);
  }
  std::printf("# %d copies; the last one failed with %s after %.3f s\n", copies,
              std::strerror(-error), last);
  EXPECT(copies > 1);
  EXPECT(error < 0);
  EXPECT(last < kSecondsPerCall);
}

CASE("every further copy fails in time") {
  const Device& device = open_before();
  const auto start = Clock::now();
  __u64 handle = 0;
  const int allocated = allocate(device, 1 << 20, {}, handle);
  std::vector<uint8_t> bytes(1 << 20);
  if (allocated == 0) {
    EXPECT(device.copy_in(handle, bytes.data(), bytes.size()) < 0);
    EXPECT(device.copy_out(handle, bytes.data(), bytes.size()) < 0);
    EXPECT(device.copy(handle, handle, 4096, 0, 65536) < 0);
    neuron_ioctl_memset64 fill = {handle, 0, 1, 65536};
    EXPECT(device.call(NEURON_IOCTL_MEMSET64, &fill) < 0);
  }
  EXPECT(since(start) < 4 * kSecondsPerCall);
}

CASE("registers read all ones or as an error") {
  const Device& device = open_before();
  neuron_ioctl_semaphore semaphore = {0, 3, 0};
  if (device.call(NEURON_IOCTL_SEMAPHORE_READ, &semaphore) == 0) {
    EXPECT_EQ(semaphore.value, 0xffffffffu);
  }
}

CASE("a reset says that it failed, in time") {
  const Device& device = open_before();
  const auto start = Clock::now();
  neuron_ioctl_device_reset request = {1, 0};
  const int error = device.call(NEURON_IOCTL_NC_RESET, &request);
  if (error == 0) {
    neuron_ioctl_device_ready ready = {request.request_id, 0};
    const int result = device.call(NEURON_IOCTL_NC_RESET_READY, &ready);
    EXPECT(result != 0 || ready.result != 0);
  }
  std::printf("# the reset failed after %.3f s\n", since(start));
  EXPECT(since(start) < 30);
}

CASE("a process that has the device open ends in time") {
  const auto start = Clock::now();
  const int status = exit_status_of_child([] {
    const int fd = Device::try_open(0, O_RDWR);
    return fd >= 0 || fd == -ENODEV || fd == -EINVAL || fd == -EIO ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT(since(start) < kSecondsPerCall);
}

}  // namespace
}  // namespace neuron::guest
