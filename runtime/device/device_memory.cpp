// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_memory.h"

#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

// `copy`: a function of the driver library; the library cuts a copy that is too large for a driver.
template <class Copy>
Result<void> moved(uint64_t size, Copy&& copy, const char* what, uint64_t address) {
  if (size == 0) return {};
  if (const int result = copy(); result != 0) {
    return driver_error(NRT_HW_ERROR, result, "{} {} bytes at device address {:#x}", what, size,
                        address);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::allocate(Device& device,
                                                             const MemoryRequest& request) {
  uint64_t handle = 0;
  int result =
      ndl_memory_alloc(device.ndl(), request.size, request.host ? 0 : request.alignment,
                       request.host ? 1 : 0, request.host ? 0 : device.place(request.core).hbm(), 0,
                       request.core, request.category, &handle);
  if (result != 0) {
    return driver_error(
        NRT_RESOURCE, result, "allocating {} bytes of {} for {} on device {} core {}", request.size,
        request.host ? "host memory" : "HBM", request.purpose, device.index(), request.core);
  }
  uint64_t address = 0;
  result = ndl_memory_get_pa(handle, &address);
  if (result != 0) {
    ndl_memory_free(handle);
    return driver_error(NRT_FAILURE, result, "asking for the address of {} on device {}",
                        request.purpose, device.index());
  }
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, request, handle, address));
}

DeviceMemory::DeviceMemory(Device& device, const MemoryRequest& request, uint64_t handle,
                           uint64_t address)
    : device_(device),
      handle_(handle),
      address_(address),
      size_(request.size),
      core_(request.core),
      category_(request.category),
      host_(request.host) {
  device_.record().memory_changed(host_, core_, category_, static_cast<int64_t>(size_));
  device_.add_memory(*this);
}

DeviceMemory::~DeviceMemory() {
  device_.remove_memory(*this);  // before another allocation can get the address
  ndl_memory_free(handle_);
  device_.record().memory_changed(host_, core_, category_, -static_cast<int64_t>(size_));
}

Result<std::byte*> DeviceMemory::map() {
  std::lock_guard lock(map_mutex_);
  if (mapping_ == nullptr) {
    void* address = nullptr;
    if (const int result = ndl_memory_map(handle_, &address); result != 0) {
      return driver_error(NRT_RESOURCE, result, "mapping {} bytes at device address {:#x}", size_,
                          address_);
    }
    mapping_ = static_cast<std::byte*>(address);
  }
  return mapping_;
}

Result<void> DeviceMemory::write(const void* from, uint64_t offset, uint64_t size) {
  return moved(
      size,
      [&] {
        return ndl_memory_buf_zerocopyin(handle_, const_cast<void*>(from), offset, size,
                                         NEURON_DMA_H2T_DEFAULT_QID, 0);
      },
      "writing", address_ + offset);
}

Result<void> DeviceMemory::read(void* to, uint64_t offset, uint64_t size) const {
  return moved(
      size,
      [&] {
        return ndl_memory_buf_zerocopyout(handle_, to, offset, size, NEURON_DMA_H2T_DEFAULT_QID);
      },
      "reading", address_ + offset);
}

Result<void> DeviceMemory::fill(uint64_t offset, uint64_t size, int value) {
  return moved(
      size, [&] { return ndl_memset(handle_, offset, value, size); }, "filling", address_ + offset);
}

Result<void> DeviceMemory::copy(const DeviceMemory& source, uint64_t source_offset, uint64_t offset,
                                uint64_t size) {
  return moved(
      size, [&] { return ndl_memory_copy(source.handle_, handle_, source_offset, offset, size); },
      "copying", address_ + offset);
}

}  // namespace neuron::runtime
