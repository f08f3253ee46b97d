// SPDX-License-Identifier: Apache-2.0
// Finding, opening and identifying devices; register access; resets of the library after fork.
#include "ndl/ndl_device.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "driver/ndl/device_table.h"
#include "driver/ndl/guard.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::explain;
using neuron::ndl::fail;
using neuron::ndl::guarded;

namespace {

constexpr uint32_t kMostRegisters = 100;  // of one call, a limit of the driver

DeviceTable& table() { return DeviceTable::instance(); }

std::shared_ptr<neuron::ndl::Port> find_port() {
  std::string error;
  std::shared_ptr<neuron::ndl::Port> port = neuron::ndl::port(error);
  if (port == nullptr) fail(-ENODEV, "%s", error.c_str());
  return port;
}

int null_argument(const char* function) {
  return fail(-EINVAL, "%s: a pointer that must not be null is null", function);
}

int access_registers(ndl_device_t* device, unsigned long request, uint8_t bar, uint64_t* addresses,
                     uint32_t count, uint32_t* data, const char* what) {
  if (addresses == nullptr || data == nullptr) return null_argument(what);
  if (count == 0 || count > kMostRegisters) {
    return fail(-EINVAL, "%s: %u registers asked for; 1 to %u are possible", what, count,
                kMostRegisters);
  }
  const DevicePointer open = table().find(device);
  if (open == nullptr) return -ENODEV;
  neuron_ioctl_bar_rw access = {};
  access.bar = bar;
  access.address = reinterpret_cast<__u64*>(addresses);
  access.data = data;
  access.count = count;
  return open->call(request, &access, what);
}

}  // namespace

int ndl_get_version(ndl_version_info_t* version) {
  return guarded("ndl_get_version", [&] {
    if (version == nullptr) return null_argument("ndl_get_version");
    const auto port = find_port();
    if (port == nullptr) return -ENODEV;
    const std::string text = port->driver_version();
    unsigned major = 0, minor = 0;
    if (std::sscanf(text.c_str(), "%u.%u", &major, &minor) != 2) {
      return fail(-ENOENT, "the version of the driver (%s) cannot be found out",
                  port->name().c_str());
    }
    *version = {};
    version->driver_major_version = static_cast<uint16_t>(major);
    version->driver_minor_version = static_cast<uint16_t>(minor);
    text.copy(version->driver_full_version, DRIVER_VERSION_MAX_SIZE - 1);
    version->library_major_version = NEURON_DRIVER_LIBRARY_MAJOR;
    version->library_minor_version = NEURON_DRIVER_LIB_MINOR;
    return 0;
  });
}

int ndl_get_compatible_version(uint32_t* min_compatible_version, uint32_t* max_compatible_version) {
  return guarded("ndl_get_compatible_version", [&] {
    if (min_compatible_version == nullptr || max_compatible_version == nullptr) {
      return null_argument("ndl_get_compatible_version");
    }
    neuron_ioctl_compatible_version range = {};
    const int result = table().ask(NEURON_IOCTL_COMPATIBLE_VERSION, &range,
                                   "asking which runtime interfaces the driver accepts");
    if (result != 0) return result;
    *min_compatible_version = range.min;
    *max_compatible_version = range.max;
    return 0;
  });
}

bool ndl_feature_supported(int nd_fd, uint64_t feature) {
  const DevicePointer open = table().find_descriptor(nd_fd);
  return open != nullptr && open->has(feature);
}

int ndl_register_soft_incompat_callback(void (*callback)(const char*)) {
  table().set_incompatibility_callback(callback);
  return 0;
}

int ndl_available_devices(int* device_indexes, int device_indexes_size) {
  return guarded("ndl_available_devices", [&] {
    if (device_indexes == nullptr && device_indexes_size > 0) {
      return null_argument("ndl_available_devices");
    }
    const auto port = find_port();
    if (port == nullptr) return -ENODEV;
    const int count = port->devices(device_indexes, std::max(device_indexes_size, 0));
    return count >= 0 ? count : explain(count, "looking for devices (%s)", port->name().c_str());
  });
}

int ndl_open_device(int device_index, ndl_device_init_param_t* params, ndl_device_t** device) {
  return guarded("ndl_open_device", [&] {
    if (device == nullptr) return null_argument("ndl_open_device");
    if (device_index < 0 || device_index >= MAX_NEURON_DEVICE_COUNT) {
      return fail(-ENODEV, "there is no device %d: numbers go from 0 to %d", device_index,
                  MAX_NEURON_DEVICE_COUNT - 1);
    }
    return table().open(device_index, params, device);
  });
}

int ndl_close_device(ndl_device_t* device) {
  return guarded("ndl_close_device", [&] { return table().close(device); });
}

void ndl_device_cached_fd_close_all(void) {
  guarded("ndl_device_cached_fd_close_all", [&] {
    table().abandon();
    return 0;
  });
}

int ndl_bar_read(ndl_device_t* device, uint8_t bar, uint64_t* addresses, uint32_t count,
                 uint32_t* buffer) {
  return guarded("ndl_bar_read", [&] {
    return access_registers(device, NEURON_IOCTL_BAR_READ, bar, addresses, count, buffer,
                            "reading registers");
  });
}

int ndl_bar_write(ndl_device_t* device, uint8_t bar, uint64_t* addresses, uint32_t count,
                  uint32_t* data) {
  return guarded("ndl_bar_write", [&] {
    return access_registers(device, NEURON_IOCTL_BAR_WRITE, bar, addresses, count, data,
                            "writing registers");
  });
}

int ndl_read_hw_counters(ndl_device_t* device, uint64_t* addresses, uint32_t count,
                         uint32_t* data) {
  return guarded("ndl_read_hw_counters", [&] {
    if (addresses == nullptr || data == nullptr) return null_argument("ndl_read_hw_counters");
    const DevicePointer open = table().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_read_hw_counters counters = {};
    counters.address = reinterpret_cast<__u64*>(addresses);
    counters.data = data;
    counters.count = count;
    return open->call(NEURON_IOCTL_READ_HW_COUNTERS, &counters, "reading hardware counters");
  });
}

int ndl_mmap_bar_region(ndl_device_t* device, enum neuron_dm_block_type block, uint32_t block_id,
                        enum neuron_dm_resource_type resource, void** va, uint64_t* size) {
  return guarded("ndl_mmap_bar_region", [&] {
    if (va == nullptr || size == nullptr) return null_argument("ndl_mmap_bar_region");
    const DevicePointer open = table().find(device);
    if (open == nullptr) return -ENODEV;
    return open->map_resource(static_cast<uint32_t>(block), block_id,
                              static_cast<uint32_t>(resource), va, size);
  });
}

int ndl_get_board_info(uint32_t* architecture, uint32_t* revision) {
  return guarded("ndl_get_board_info", [&] {
    if (architecture == nullptr || revision == nullptr) return null_argument("ndl_get_board_info");
    neuron_ioctl_device_basic_info info = {};
    const int result = table().ask(NEURON_IOCTL_DEVICE_BASIC_INFO, &info, "asking what chip it is");
    if (result != 0) return result;
    *architecture = info.architecture;
    *revision = info.revision;
    return 0;
  });
}

int ndl_get_device_bdf(int device_index, uint32_t* bus_num, uint8_t* pci_slot, uint8_t* dev_func) {
  uint32_t domain = 0;
  return ndl_get_device_bdf_ext(device_index, &domain, bus_num, pci_slot, dev_func);
}

int ndl_get_device_bdf_ext(int device_index, uint32_t* domain, uint32_t* bus_num, uint8_t* pci_slot,
                           uint8_t* dev_func) {
  return guarded("ndl_get_device_bdf_ext", [&] {
    if (domain == nullptr || bus_num == nullptr || pci_slot == nullptr || dev_func == nullptr) {
      return null_argument("ndl_get_device_bdf_ext");
    }
    const auto port = find_port();
    if (port == nullptr) return -ENODEV;
    int indexes[MAX_NEURON_DEVICE_COUNT] = {};
    const int count = port->devices(indexes, MAX_NEURON_DEVICE_COUNT);
    if (count < 0) return explain(count, "looking for devices (%s)", port->name().c_str());
    int* const end = indexes + std::min(count, MAX_NEURON_DEVICE_COUNT);
    if (std::find(indexes, end, device_index) == end) {
      return fail(-ENODEV, "there is no device %d (%s)", device_index, port->name().c_str());
    }
    neuron_ioctl_device_bdf_ext place = {};
    // The driver counts from the device that it is asked through, which is the first one here.
    place.nd_index = static_cast<__u32>(device_index - indexes[0]);
    const int result = table().ask(NEURON_IOCTL_DEVICE_BDF_EXT, &place, "asking for a PCI address");
    if (result != 0) return result;
    *domain = place.domain;
    *bus_num = place.bus_number;
    *pci_slot = place.slot;
    *dev_func = place.func;
    return 0;
  });
}

int ndl_get_host_device_id(ndl_device_t* device, uint32_t* host_device_id) {
  return guarded("ndl_get_host_device_id", [&] {
    if (host_device_id == nullptr) return null_argument("ndl_get_host_device_id");
    const DevicePointer open = table().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_host_device_id id = {};
    const int result =
        open->call(NEURON_IOCTL_HOST_DEVICE_ID, &id, "asking for its number on the host");
    if (result != 0) return result;
    *host_device_id = id.host_device_id;
    return 0;
  });
}

int ndl_get_host_device_id_to_rid_map(uint32_t* count, uint32_t* host_did_to_rid_map) {
  return guarded("ndl_get_host_device_id_to_rid_map", [&] {
    if (count == nullptr || host_did_to_rid_map == nullptr) {
      return null_argument("ndl_get_host_device_id_to_rid_map");
    }
    neuron_ioctl_host_device_id_to_rid_map map = {};
    const int result =
        table().ask(NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP, &map, "asking for routing ids");
    if (result != 0) return result;
    *count = std::min<uint32_t>(map.count, MAX_NEURON_DEVICE_COUNT);
    std::copy_n(map.host_did_to_rid_map, *count, host_did_to_rid_map);
    return 0;
  });
}

int ndl_get_logical_to_physical_nc_map(struct neuron_ioctl_nc_map* map, uint32_t max_num_entries,
                                       enum neuron_ioctl_nc_mapping_type mapping_version) {
  return guarded("ndl_get_logical_to_physical_nc_map", [&] {
    if (map == nullptr) return null_argument("ndl_get_logical_to_physical_nc_map");
    neuron_ioctl_get_logical_to_physical_nc_map request = {};
    request.map = map;
    request.max_map_entries = max_num_entries;
    request.mapping_version = static_cast<__u32>(mapping_version);
    const int result = table().ask(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request,
                                   "asking for the map of logical cores");
    // 524 is a kernel-internal errno (ENOTSUPP) that user space has no name for.
    return result == -524 ? explain(-ENOTSUP, "this chip numbers its cores physically") : result;
  });
}

int ndl_printk(char* str, uint32_t size, uint32_t action) {
  return guarded("ndl_printk", [&] {
    constexpr uint32_t kLongest = 512;
    if (str == nullptr) return null_argument("ndl_printk");
    // The driver trusts a size of 0 and reads before the buffer.
    if (size == 0 || size > kLongest || str[size - 1] != '\0') {
      return fail(-EINVAL, "a line for the kernel log ends with NUL and has 1 to %u bytes, not %u",
                  kLongest, size);
    }
    neuron_ioctl_printk line = {};
    line.buffer = str;
    line.size = size;
    line.action = action;
    return table().ask(NEURON_IOCTL_PRINTK, &line, "writing to the kernel log");
  });
}

int ndl_dump_nc_pid_info(uint32_t nc_id, bool filter_log_owner, uint32_t log_dump_limit) {
  return guarded("ndl_dump_nc_pid_info", [&] {
    neuron_ioctl_nc_pid_state_dump dump = {};
    dump.size = sizeof(dump);
    dump.nc_id = nc_id;
    dump.filter_log_owner = filter_log_owner ? 1 : 0;
    dump.log_dump_limit = log_dump_limit;
    return table().ask(NEURON_IOCTL_NC_PID_STATE_DUMP, &dump, "printing the owner of a core");
  });
}
