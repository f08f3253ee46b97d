// SPDX-License-Identifier: Apache-2.0
// Memory of a Neuron device that this process has mapped, such as a tensor of libnrt, while a
// window shows it.
//
// Concepts: the memory belongs to the program, which may free it, and its device may go away; then
// stores would reach nothing, or what comes to lie there. So a window asks before it writes. It is
// one more reference to the device. It needs libnrt.so.1 for the ndl_ calls. Threads: any, except
// find(). Fails: find() with CCOM_INVALID for other memory; check() with what has become of it.
#ifndef CCOM_COMMUNICATOR_DEVICE_MEMORY_H
#define CCOM_COMMUNICATOR_DEVICE_MEMORY_H

#include <memory>
#include <mutex>

#include "ccom/base/error.h"
#include "driver/base/deadline.h"

struct ndl_device;

namespace neuron::ccom {

class DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> find(const void* memory, uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  uint32_t device() const { return static_cast<uint32_t>(device_); }
  // Whether all is still mapped, and the device answers. The device is asked each 100 ms.
  Result<void> check();
  // Whether the bytes lie in memory of a device that this process has mapped.
  static bool mapped(const void* memory, uint64_t bytes);

 private:
  DeviceMemory(const void* memory, uint64_t bytes, int device)
      : memory_(memory), bytes_(bytes), device_(device) {}

  const void* memory_;
  uint64_t bytes_;
  int device_;
  ndl_device* open_ = nullptr;
  std::mutex mutex_;  // next_look_
  base::Deadline next_look_{base::Moment{}};
};

}  // namespace neuron::ccom

#endif
