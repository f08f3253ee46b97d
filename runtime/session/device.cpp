// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/device.h"

#include "runtime/session/driver_error.h"

namespace neuron::runtime {

std::uint32_t cores_per_device(std::uint32_t architecture) {
  switch (architecture) {
    case 2:
      return NEURON_V2_CORES;
    case 3:
    case 4:
      return 8;
    default:
      return 0;
  }
}

Result<std::unique_ptr<Device>> Device::open(int index) {
  ndl_device_t* device = nullptr;
  if (const int result = ndl_open_device(index, nullptr, &device); result != 0) {
    return driver_error(NRT_FAILURE, result, "opening device {}", index);
  }
  auto* port = ndl::device_port(device);
  if (port == nullptr || device->device_type != 2) {
    const int generation = device->device_type;
    ndl_close_device(device);
    if (port == nullptr) return fail(NRT_FAILURE, "device {} has no port", index);
    return fail(
        NRT_FAILURE,
        "device {} is a chip of generation {}; this runtime drives generation 2 (trn1, inf2)",
        index, generation);
  }
  return std::unique_ptr<Device>(new Device(index, device, port));
}

Device::~Device() { ndl_close_device(ndl_); }

Result<std::uint32_t> Device::read_register(std::uint64_t bar0_offset) const {
  std::uint64_t address = ndl_->csr_base[0] + bar0_offset;
  std::uint32_t value = 0;
  if (const int result = ndl_bar_read(ndl_, 0, &address, 1, &value); result != 0) {
    return driver_error(NRT_HW_ERROR, result, "reading register {:#x} of device {}", bar0_offset,
                        index_);
  }
  return value;
}

Result<void> Device::write_register(std::uint64_t bar0_offset, std::uint32_t value) const {
  std::uint64_t address = ndl_->csr_base[0] + bar0_offset;
  if (const int result = ndl_bar_write(ndl_, 0, &address, 1, &value); result != 0) {
    return driver_error(NRT_HW_ERROR, result, "writing {:#x} to register {:#x} of device {}", value,
                        bar0_offset, index_);
  }
  return {};
}

}  // namespace neuron::runtime
