// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/device_memory.h"

#include <cerrno>

#include "ndl/ndl_core.h"
#include "ndl/ndl_device.h"
#include "ndl/ndl_memory.h"

namespace neuron::ccom {
namespace {

constexpr std::chrono::milliseconds kLookAtDevice{100};

struct Placement {
  int device = -1;
  int hbm = -1;
  bool operator==(const Placement&) const = default;
};

// Of the first and the last byte; the device is -1 if they are not in one memory.
Placement placement_of(const void* memory, uint64_t bytes) {
  Placement first, last;
  if (bytes == 0 || ndl_get_va_placement(memory, &first.device, &first.hbm) != 0 ||
      ndl_get_va_placement(static_cast<const std::byte*>(memory) + bytes - 1, &last.device,
                           &last.hbm) != 0 ||
      !(first == last)) {
    return {};
  }
  return first;
}

// The driver has no time now; what it says tells nothing about the device.
bool is_busy(int result) { return result == -EAGAIN || result == -EBUSY || result == -EINTR; }

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::find(const void* memory, uint64_t bytes) {
  const Placement placement = placement_of(memory, bytes);
  if (placement.device < 0) {
    return fail(CCOM_INVALID,
                "{} bytes at {:#x} are neither its ccom_mem_alloc memory nor those of a tensor on "
                "a device, at the address that nrt_tensor_get_va gives",
                bytes, reinterpret_cast<uintptr_t>(memory));
  }
  std::unique_ptr<DeviceMemory> found(new DeviceMemory(memory, bytes, placement.device));
  if (const int error = ndl_open_device(placement.device, nullptr, &found->open_); error != 0) {
    found->open_ = nullptr;
    return system_error(-error, ccom::format("cannot open Neuron device {}, whose memory is shown",
                                             placement.device));
  }
  return found;
}

DeviceMemory::~DeviceMemory() {
  if (open_ != nullptr) {
    ndl_close_device(open_);
  }
}

bool DeviceMemory::mapped(const void* memory, uint64_t bytes) {
  return bytes == 0 || placement_of(memory, bytes).device >= 0;
}

Result<void> DeviceMemory::check() {
  if (!mapped(memory_, bytes_)) {
    return fail(CCOM_INVALID,
                "{} bytes at {:#x} of device {} are no longer mapped; a tensor must stay until its "
                "window is closed",
                bytes_, reinterpret_cast<uintptr_t>(memory_), device_);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!next_look_.expired()) {
      return {};
    }
    next_look_ = base::Deadline::after(kLookAtDevice);
  }
  uint32_t value = 0;
  const int result = ndl_nc_semaphore_read(open_, 0, 0, &value);
  if (result != 0 && !is_busy(result)) {
    return system_error(-result, ccom::format("device {} is gone, and with it the memory that is "
                                              "shown",
                                              device_));
  }
  return {};
}

}  // namespace neuron::ccom
