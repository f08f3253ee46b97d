// SPDX-License-Identifier: Apache-2.0
//
// One allocation: device memory (HBM), or host memory that the device reaches.
// Callers: tensors, loader, executor. Thread-safe: calls on different bytes; map() always.
// Owns: the allocation; the destructor frees it, mapping included. Borrows: the device.
// Fails: NRT_RESOURCE when memory is short, with the size and its purpose; NRT_HW_ERROR when a copy
// fails. The caller checks ranges.
#ifndef RUNTIME_DEVICE_DEVICE_MEMORY_H
#define RUNTIME_DEVICE_DEVICE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/device/device.h"

namespace neuron::runtime {

struct MemoryRequest {
  uint64_t size = 0;
  uint64_t alignment = 0;  // power of two; 0 for the default; ignored for host memory
  bool host = false;
  uint32_t core = 0;  // of the device; its HBM and its copy queue are used
  mem_alloc_category_t category = NEURON_MEMALLOC_TYPE_MISC_DEVICE;
  const char* purpose = "memory";  // for the error sentence
};

class DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> allocate(Device& device,
                                                        const MemoryRequest& request);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  uint64_t address() const { return address_; }  // as the device sees it
  uint64_t size() const { return size_; }
  uint64_t handle() const { return handle_; }
  uint32_t core() const { return core_; }
  bool host() const { return host_; }
  Device& device() const { return device_; }

  // Maps the whole allocation on the first call; returns the same address each time.
  Result<std::byte*> map();

  Result<void> write(const void* from, uint64_t offset, uint64_t size);
  Result<void> read(void* to, uint64_t offset, uint64_t size) const;
  Result<void> fill(uint64_t offset, uint64_t size, int value);
  // From `source` of the same device into this.
  Result<void> copy(const DeviceMemory& source, uint64_t source_offset, uint64_t offset,
                    uint64_t size);

 private:
  DeviceMemory(Device& device, const MemoryRequest& request, uint64_t handle, uint64_t address);

  Device& device_;
  uint64_t handle_;
  uint64_t address_;
  uint64_t size_;
  uint32_t core_;
  uint32_t category_;
  bool host_;
  std::mutex map_mutex_;  // mapping_
  std::byte* mapping_ = nullptr;
};

}  // namespace neuron::runtime

#endif
