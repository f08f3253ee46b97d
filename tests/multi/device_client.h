// SPDX-License-Identifier: Apache-2.0
// A process's open device of a daemon, for tests that go below the runtime: memory, and rings whose
// descriptors a process writes as it likes.
//
// Callers: one thread each. Owns the connection; what it has allocated goes with it. Fails: open
// gives null; calls give what the driver answers.
#ifndef TESTS_MULTI_DEVICE_CLIENT_H
#define TESTS_MULTI_DEVICE_CLIENT_H

#include <cstdint>
#include <memory>
#include <string>

#include "driver/ndl/port.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::multi {

class DeviceClient {
 public:
  static std::unique_ptr<DeviceClient> open(const std::string& socket);

  ndl::DevicePort& port() { return *device_; }
  // 0: refused.
  uint64_t allocate(uint64_t bytes, bool host, uint32_t core = 0);
  bool free(uint64_t handle);
  // Device address; 0 for no handle.
  uint64_t address(uint64_t handle);
  void* map(uint64_t handle, uint64_t bytes);
  int fill(uint64_t handle, uint64_t bytes);
  int copy(uint64_t from, uint64_t to, uint64_t bytes);
  int buffer(uint64_t handle, void* memory, uint64_t bytes, bool to_device);
  // The process has marked the core of the device, which is then nobody else's.
  bool mark(uint32_t core);

  // A ring of the process's own on a DMA engine, in host memory that it has mapped.
  bool make_ring(uint32_t engine, uint32_t queue, uint32_t descriptors);
  // All descriptors of the ring move `bytes` (64 KiB at most) from one address to another.
  void fill_ring(uint64_t from, uint64_t to, uint32_t bytes);
  // Sets the queue up anew and has `descriptors` carried out; the answer comes when they are.
  int start_ring(uint32_t descriptors);

 private:
  DeviceClient() = default;

  std::unique_ptr<ndl::Port> port_;
  std::unique_ptr<ndl::DevicePort> device_;
  uint32_t engine_ = 0, queue_ = 0, length_ = 0;
  uint64_t tx_ = 0, rx_ = 0;
  void *source_ = nullptr, *destination_ = nullptr;
};

}  // namespace neuron::multi

#endif
