// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <array>
#include <cerrno>
#include <vector>

#include "ndl/ndl_observe.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

constexpr uint32_t kAdapterPatienceMs = 1000;

}  // namespace

Result<std::unique_ptr<Device>> Device::open(int index) {
  ndl_device_t* device = nullptr;
  if (const int result = ndl_open_device(index, nullptr, &device); result != 0) {
    return driver_error(NRT_FAILURE, result, "opening device {}", index);
  }
  auto* port = ndl::device_port(device);
  const ChipTable* chip = find_chip_table(device->device_type);
  if (port == nullptr || chip == nullptr) {
    const int generation = device->device_type;
    ndl_close_device(device);
    if (port == nullptr) return fail(NRT_FAILURE, "device {} has no port", index);
    return fail(NRT_FAILURE,
                "device {} is a chip of generation {}; this runtime drives generations {}", index,
                generation, known_chips());
  }
  std::unique_ptr<Device> opened(new Device(index, device, port, *chip));
  opened->read_core_map();
  return opened;
}

// A driver without a core map numbers its cores physically.
void Device::read_core_map() {
  for (uint32_t core = 0; core < physical_.size(); ++core) {
    physical_[core] = static_cast<uint8_t>(core);
  }
  if (!chip_.has_core_map) return;
  std::array<uint32_t, 1 + 2 * NEURON_NC_MAP_MAX_ENTRIES> words{};
  auto* map = reinterpret_cast<neuron_ioctl_nc_map*>(words.data());
  if (ndl_get_logical_to_physical_nc_map(map, NEURON_NC_MAP_MAX_ENTRIES,
                                         NEURON_IOCTL_NC_MAPPING_TYPE_V0) != 0) {
    return;
  }
  // A full map ends with the cores of 16 devices; those behind it are mapped as these are.
  constexpr uint32_t kMost = NEURON_NC_MAP_MAX_ENTRIES;
  uint32_t first = static_cast<uint32_t>(index_) * chip_.cores;
  if (map->num_entries == kMost) first %= kMost;
  for (uint32_t core = 0; core < chip_.cores; ++core) {
    if (first + core >= map->num_entries) return;
    const uint32_t physical = map->mappings[first + core].device_nc_idx;
    if (physical < chip_.cores) physical_[core] = static_cast<uint8_t>(physical);
  }
}

Device::~Device() { ndl_close_device(ndl_); }

void Device::add_memory(DeviceMemory& memory) {
  const std::lock_guard lock(memories_mutex_);
  memories_[memory.address()] = &memory;
}

void Device::remove_memory(const DeviceMemory& memory) {
  const std::lock_guard lock(memories_mutex_);
  const auto found = memories_.find(memory.address());
  if (found != memories_.end() && found->second == &memory) memories_.erase(found);
}

DeviceMemory* Device::memory_at(uint64_t address, uint64_t bytes) const {
  const std::lock_guard lock(memories_mutex_);
  auto found = memories_.upper_bound(address);
  if (found == memories_.begin()) return nullptr;
  DeviceMemory& memory = *std::prev(found)->second;
  const uint64_t at = address - memory.address();
  return at <= memory.size() && bytes <= memory.size() - at ? &memory : nullptr;
}

Result<std::string> Device::nearest_adapter() {
  const std::lock_guard lock(adapter_mutex_);
  if (adapter_) return *adapter_;
  char address[32];
  const ssize_t length = ndl_observe_adapter(index_, kAdapterPatienceMs, address, sizeof(address));
  if (length >= 0) {
    adapter_ = std::string(address);
    return *adapter_;
  }
  const Error error = driver_error(NRT_FAILURE, static_cast<int>(length),
                                   "looking for the network adapter nearest to device {}", index_);
  // Another failure may pass.
  if (length == -ENOENT) adapter_ = error;
  return error;
}

Result<uint32_t> Device::read_register(uint64_t bar0_offset) const {
  uint64_t address = ndl_->csr_base[0] + bar0_offset;
  uint32_t value = 0;
  if (const int result = ndl_bar_read(ndl_, 0, &address, 1, &value); result != 0) {
    return driver_error(NRT_HW_ERROR, result, "reading register {:#x} of device {}", bar0_offset,
                        index_);
  }
  return value;
}

Result<void> Device::write_register(uint64_t bar0_offset, uint32_t value) const {
  // Launches ring doorbells with it: no memory is allocated here.
  uint64_t address = ndl_->csr_base[0] + bar0_offset;
  if (const int result = ndl_bar_write(ndl_, 0, &address, 1, &value); result != 0) {
    return driver_error(NRT_HW_ERROR, result, "writing {:#x} to register {:#x} of device {}", value,
                        bar0_offset, index_);
  }
  return {};
}

Result<void> Device::write_registers(std::initializer_list<RegisterWrite> writes) const {
  std::vector<uint64_t> addresses;
  std::vector<uint32_t> values;
  for (const RegisterWrite& write : writes) {
    addresses.push_back(ndl_->csr_base[0] + write.bar0_offset);
    values.push_back(write.value);
  }
  const auto count = static_cast<uint32_t>(writes.size());
  if (const int result = ndl_bar_write(ndl_, 0, addresses.data(), count, values.data());
      result != 0) {
    return driver_error(NRT_HW_ERROR, result,
                        "writing {} registers, the first of which is {:#x}, of device {}", count,
                        writes.begin()->bar0_offset, index_);
  }
  return {};
}

Result<void> Device::post_registers(std::initializer_list<RegisterWrite> writes) const {
  std::array<ndl::DevicePort::RegisterWrite, ndl::DevicePort::kMostPosted> posted{};
  const size_t count = writes.size();
  int result = -EINVAL;  // too many for it: none is written
  if (count <= posted.size()) {
    for (size_t i = 0; i < count; ++i) {
      posted[i] = {ndl_->csr_base[0] + writes.begin()[i].bar0_offset, writes.begin()[i].value};
    }
    result = port_->post_registers({posted.data(), count});
  }
  if (result != 0) {
    return driver_error(NRT_HW_ERROR, result,
                        "writing {} registers, the first of which is {:#x}, of device {}", count,
                        count == 0 ? 0 : writes.begin()->bar0_offset, index_);
  }
  return {};
}

Result<void> Device::check_posted() const {
  if (const int result = port_->check_posted(); result != 0) {
    return driver_error(NRT_HW_ERROR, result, "writing registers of device {}", index_);
  }
  return {};
}

}  // namespace neuron::runtime
