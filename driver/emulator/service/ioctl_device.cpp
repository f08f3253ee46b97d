// SPDX-License-Identifier: Apache-2.0
// Calls about the device itself: identity, versions, registers, processes.
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "driver/core/queue.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"

namespace neuron::service {
namespace {

// All of the public driver's features but dma-buf, which needs a kernel.
constexpr uint64_t kFeatures =
    NEURON_DRIVER_FEATURE_ASYNC_DMA | NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT |
    NEURON_DRIVER_FEATURE_BIG_CORE_MAPS | NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE |
    NEURON_DRIVER_FEATURE_HBM_SCRUB | NEURON_DRIVER_FEATURE_MEM_ALLOC64 |
    NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD | NEURON_DRIVER_FEATURE_ZEROCOPY;
constexpr uint32_t kMaxRegisters = 100;
constexpr uint32_t kMaxLine = 512;
// What the public driver answers where the interface exists for other chips only.
constexpr int kNotSupported = 524;

// UltraServers have chips of generation 3; a host of this one is always on its own.
template <typename T>
int check_size(unsigned device, const char* name, const T& argument, size_t size) {
  if (argument.sz == size) return 0;
  return fail(-EINVAL, "device %u: %s names %u bytes, expected %zu", device, name,
              unsigned{argument.sz}, size);
}

void single_node(neuron_ioctl_pod_status& status) {
  std::memset(status.pod_id, 0, sizeof(status.pod_id));
  status.state = NEURON_POD_E_STATE_SINGLE_NODE;
  status.pod_type = NEURON_POD_TYPE_NONE;
  status.pod_sz = 0;
  status.node_id = -1;
}

}  // namespace

int Session::dispatch_device(unsigned long request, void* argument) {
  const unsigned index = device_.index();
  switch (request) {
    case NEURON_IOCTL_DEVICE_INIT:
    case NEURON_IOCTL_DEVICE_RELEASE:
      return 0;
    case NEURON_IOCTL_DEVICE_INFO:
      return device_info(as<neuron_ioctl_device_info>(argument));
    case NEURON_IOCTL_DEVICE_APP_PID: {
      const std::lock_guard lock(device_.mutex);
      as<__s32>(argument) = device_.processes.slot[0].pid;
      return 0;
    }
    case NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO:
      return apps_info(as<neuron_ioctl_get_apps_info>(argument));
    case NEURON_IOCTL_BAR_READ:
      return bar_access(as<neuron_ioctl_bar_rw>(argument), false);
    case NEURON_IOCTL_BAR_WRITE:
      return bar_access(as<neuron_ioctl_bar_rw>(argument), true);
    case NEURON_IOCTL_POST_METRIC: {
      const auto& metric = as<neuron_ioctl_post_metric>(argument);
      if (int error = check_buffer(metric.data, metric.data_size)) return error;
      const std::lock_guard lock(device_.firmware_mutex());
      return device_.firmware().post_metric(
          {reinterpret_cast<const std::byte*>(metric.data), metric.data_size});
    }
    case NEURON_IOCTL_COMPATIBLE_VERSION:
      as<neuron_ioctl_compatible_version>(argument).min = device_.layout().min_interface;
      as<neuron_ioctl_compatible_version>(argument).max = device_.layout().max_interface;
      return 0;
    case NEURON_IOCTL_DEVICE_BASIC_INFO:
      as<neuron_ioctl_device_basic_info>(argument).architecture = device_.profile().architecture;
      as<neuron_ioctl_device_basic_info>(argument).revision = device_.profile().revision;
      return 0;
    case NEURON_IOCTL_DEVICE_BDF: {
      auto& bdf = as<neuron_ioctl_device_bdf>(argument);
      bdf.bus_number = device_.place().bus;
      bdf.slot = device_.place().slot;
      bdf.func = device_.place().function;
      return 0;
    }
    case NEURON_IOCTL_DEVICE_BDF_EXT:
      return bdf_ext(as<neuron_ioctl_device_bdf_ext>(argument));
    case NEURON_IOCTL_DRIVER_INFO_GET:
      return driver_info(as<neuron_ioctl_device_driver_info>(argument));
    case NEURON_IOCTL_DRIVER_INFO_SET:
      return fail(-kNotSupported, "device %u: the driver's information cannot be set", index);
    case NEURON_IOCTL_PRINTK:
      return print(as<neuron_ioctl_printk>(argument));
    case NEURON_IOCTL_HOST_DEVICE_ID:
      as<neuron_ioctl_host_device_id>(argument).host_device_id = index;
      return 0;
    case NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP:
      return routing_ids(as<neuron_ioctl_host_device_id_to_rid_map>(argument));
    case NEURON_IOCTL_NC_PID_STATE_DUMP:
      return pid_state_dump(as<neuron_ioctl_nc_pid_state_dump>(argument));
    case NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP:
      return core_map(as<neuron_ioctl_get_logical_to_physical_nc_map>(argument));
    case NEURON_IOCTL_READ_HW_COUNTERS:
      return hw_counters(as<neuron_ioctl_read_hw_counters>(argument));
    case NEURON_IOCTL_RESOURCE_MMAP_INFO:
      return resource_info(as<neuron_ioctl_resource_mmap_info>(argument));
    case NEURON_IOCTL_METRICS_CTRL: {
      const uint32_t mode = as<neuron_ioctl_metrics_ctrl>(argument).mode;
      const std::lock_guard lock(device_.mutex);
      if (mode <= NEURON_METRICS_MODE_PERIODIC_DISABLE)
        device_.metrics_paused = mode == NEURON_METRICS_MODE_PERIODIC_DISABLE;
      return 0;
    }
    case NEURON_IOCTL_POWER_PROFILE: {
      const auto& power = as<neuron_ioctl_power_profile>(argument);
      if (power.sz != sizeof(power))
        return fail(-ENXIO, "device %u: POWER_PROFILE names %u bytes, expected %zu", index,
                    unsigned{power.sz}, sizeof(power));
      if (power.ctrl != 0)
        return fail(-kNotSupported, "device %u: power control %u is unknown", index, power.ctrl);
      if (device_.layout().generation == 2) return 0;  // accepted and ignored
      const std::lock_guard lock(device_.firmware_mutex());
      return device_.firmware().set_power_profile(static_cast<uint8_t>(power.profile));
    }
    case NEURON_IOCTL_POD_INFO: {
      auto& info = as<neuron_ioctl_pod_info>(argument);
      if (int error = check_size(index, "POD_INFO", info, sizeof(info))) return error;
      info.pod_type = NEURON_POD_TYPE_NONE;
      info.pod_sz = 0;
      std::memset(info.pod_id, 0, sizeof(info.pod_id));
      return 0;
    }
    case NEURON_IOCTL_POD_STATUS: {
      auto& status = as<neuron_ioctl_pod_status>(argument);
      if (int error = check_size(index, "POD_STATUS", status, sizeof(status))) return error;
      single_node(status);
      return 0;
    }
    case NEURON_IOCTL_POD_STATUS_V2: {
      auto& status = as<neuron_ioctl_pod_status_v2>(argument);
      if (int error = check_size(index, "POD_STATUS", status.v1, sizeof(status))) return error;
      single_node(status.v1);
      status.mode = NEURON_ULTRASERVER_MODE_UNSET;
      status.modes_supported = 1u << NEURON_ULTRASERVER_MODE_X1;
      return 0;
    }
    case NEURON_IOCTL_POD_CTRL:
    case NEURON_IOCTL_POD_CTRL_V2: {
      auto& control = as<neuron_ioctl_pod_ctrl>(argument);
      const size_t size = request == NEURON_IOCTL_POD_CTRL ? sizeof(neuron_ioctl_pod_ctrl)
                                                           : sizeof(neuron_ioctl_pod_ctrl_v2);
      if (int error = check_size(index, "POD_CTRL", control, size)) return error;
      control.state = NEURON_POD_E_STATE_SINGLE_NODE;
      return 0;
    }
    default:
      return kNotMine;
  }
}

int Session::device_info(neuron_ioctl_device_info& info) {
  std::memset(&info, 0, sizeof(info));
  const profiles::ChipPlace& place = device_.place();
  info.architecture = device_.profile().architecture;
  info.revision = device_.profile().revision;
  info.connected_device_count = place.neighbour_count;
  for (unsigned i = 0; i < place.neighbour_count; i++)
    info.connected_devices[i] = place.neighbours[i];
  info.bar_address[0] = device_.bar_address();
  info.bar_size[0] = device_.layout().bar0_bytes;
  return 0;
}

int Session::driver_info(neuron_ioctl_device_driver_info& info) {
  if (info.size != 0 && info.size < sizeof(info))
    return fail(-EINVAL, "device %u: DRIVER_INFO_GET has room for %u bytes, needs %zu",
                device_.index(), info.size, sizeof(info));
  info.architecture = device_.profile().architecture;
  info.revision = device_.profile().revision;
  info.version = 0;
  info.size = sizeof(info);
  info.feature_flags1 = kFeatures;
  return 0;
}

int Session::apps_info(neuron_ioctl_get_apps_info& info) {
  const std::lock_guard lock(device_.mutex);
  info.size = 0;
  for (const nd_process& process : device_.processes.slot) {
    if (process.pid == 0 || info.size >= info.capacity) continue;
    neuron_app_info& app = info.app_data[info.size++];
    std::memset(&app, 0, sizeof(app));
    app.pid = process.pid;
    if (info.apps_info_flags & APP_INFO_PID_NC_LOCK_INFO)
      for (uint32_t core = 0; core < device_.cores() && core < APP_INFO_MAX_MODELS_PER_DEVICE;
           core++) {
        const nd_core_lock& held = device_.core_state[core].lock;
        if (held.pid != process.pid) continue;
        app.nc_lock_map |= static_cast<__u8>(1u << core);
        std::memcpy(app.uuid_data[core].value, held.uuid, sizeof(held.uuid));
      }
    if (info.apps_info_flags & APP_INFO_PID_MEM_USAGE) {
      uint64_t host = 0;
      uint64_t device = 0;
      device_.memory().usage(process.pid, &host, &device);
      app.host_mem_size = host;
      app.device_mem_size = device;
    }
  }
  return 0;
}

int Session::bar_access(const neuron_ioctl_bar_rw& access, bool write) {
  const unsigned index = device_.index();
  if (access.bar != 0)
    return fail(-EINVAL, "device %u: registers are in BAR 0, found %u", index, access.bar);
  if (access.count > kMaxRegisters)
    return fail(-EINVAL, "device %u: at most %u registers at once, found %u", index, kMaxRegisters,
                access.count);
  if (access.count == 0) return 0;
  if (int error = check_buffer(access.address, access.count * sizeof(uint64_t))) return error;
  if (int error = check_buffer(access.data, access.count * sizeof(uint32_t))) return error;
  // All are checked before the first is touched.
  for (uint32_t i = 0; i < access.count; i++) {
    const uint64_t offset = access.address[i] - device_.bar_address();
    if (offset >= device_.layout().bar0_bytes || offset % 4)
      return fail(-EINVAL,
                  "device %u: register %u at 0x%" PRIx64
                  " is not inside BAR 0; add the offset to bar_address of DEVICE_INFO",
                  index, i, static_cast<uint64_t>(access.address[i]));
    if (write && nd_register_check_user_write(&device_.layout(), offset) != 0)
      return fail(-EINVAL,
                  "device %u: register %u at offset 0x%" PRIx64
                  " belongs to the driver (ring base, doorbell or firmware request)",
                  index, i, offset);
  }
  for (uint32_t i = 0; i < access.count; i++) {
    const uint64_t offset = access.address[i] - device_.bar_address();
    if (write)
      device_.chip().write_register(offset, access.data[i]);
    else
      access.data[i] = device_.chip().read_register(offset);
  }
  return 0;
}

int Session::bdf_ext(neuron_ioctl_device_bdf_ext& bdf) {
  const uint64_t index = uint64_t{device_.index()} + bdf.nd_index;
  if (index >= device_.profile().chips)
    return fail(-EINVAL, "there is no device %" PRIu64 "; an emulated %s has %u", index,
                device_.profile().name, device_.profile().chips);
  const profiles::ChipPlace& place = device_.profile().places[index];
  bdf.domain = place.domain;
  bdf.bus_number = place.bus;
  bdf.slot = place.slot;
  bdf.func = place.function;
  return 0;
}

int Session::routing_ids(neuron_ioctl_host_device_id_to_rid_map& map) {
  std::memset(&map, 0, sizeof(map));
  map.count = device_.profile().chips;
  for (unsigned i = 0; i < device_.profile().chips; i++)
    map.host_did_to_rid_map[i] = device_.profile().places[i].routing_id;
  return 0;
}

int Session::print(const neuron_ioctl_printk& line) {
  if (line.size == 0 || line.size > kMaxLine)
    return fail(-EFAULT, "device %u: a log line has 1 to %u bytes, found %u", device_.index(),
                kMaxLine, line.size);
  if (int error = check_buffer(line.buffer, line.size)) return error;
  const auto* text = static_cast<const char*>(line.buffer);
  if (text[line.size - 1] != 0)
    return fail(-EBADMSG, "device %u: the log line does not end with NUL", device_.index());
  std::fprintf(stderr, "neuron%u: %s\n", device_.index(), text);
  return 0;
}

int Session::pid_state_dump(const neuron_ioctl_nc_pid_state_dump& dump) {
  int32_t owner = 0;
  {
    const std::lock_guard lock(instance_.claims_mutex);
    owner = nd_claims_owner(&instance_.claims, dump.nc_id);
  }
  if (owner)
    std::fprintf(stderr, "neuron%u: core %u of the host is marked by pid %d\n", device_.index(),
                 dump.nc_id, owner);
  else
    std::fprintf(stderr, "neuron%u: core %u of the host is free\n", device_.index(), dump.nc_id);
  return 0;
}

int Session::hw_counters(const neuron_ioctl_read_hw_counters& counters) {
  if (int error = check_buffer(counters.address, counters.count * sizeof(uint64_t))) return error;
  if (int error = check_buffer(counters.data, counters.count * sizeof(uint32_t))) return error;
  static_assert(sizeof(__u64) == sizeof(uint64_t));
  const std::lock_guard lock(device_.firmware_mutex());
  return device_.firmware().read_registers(
      {reinterpret_cast<const uint64_t*>(counters.address), counters.count}, counters.data);
}

int Session::core_map(const neuron_ioctl_get_logical_to_physical_nc_map& request) {
  const unsigned index = device_.index();
  if (device_.layout().generation < 3)
    return fail(-kNotSupported,
                "device %u: logical cores are physical cores on chips of generation 2", index);
  if (request.mapping_version != 0)
    return fail(-EINVAL, "device %u: core map version %u is unknown, there is version 0", index,
                request.mapping_version);
  if (request.max_map_entries > ND_CORE_MAP_ENTRIES)
    return fail(-EINVAL, "device %u: a core map has at most %u entries, found %u", index,
                ND_CORE_MAP_ENTRIES, request.max_map_entries);
  neuron_ioctl_nc_map* map = request.map;
  const uint64_t entries = uint64_t{request.max_map_entries} * sizeof(map->mappings[0]);
  if (int error = check_buffer(map, sizeof(*map) + entries)) return error;
  map->num_entries = request.max_map_entries;
  for (uint32_t i = 0; i < request.max_map_entries; i++) {
    const uint32_t device = i / device_.layout().cores;
    const uint32_t core = i % device_.layout().cores;
    map->mappings[i] = {device, nd_chip_physical_core(&device_.layout(), device, core)};
  }
  return 0;
}

int Session::resource_info(neuron_ioctl_resource_mmap_info& info) {
  const nd_chip& chip = device_.layout();
  const uint32_t id = info.block_id;
  const bool core = info.block == NEURON_DM_BLOCK_TPB && id < device_.cores();
  const bool topsp = info.block == NEURON_DM_BLOCK_TOPSP && id < chip.topsps;
  // Only of generation 3: before, HBM is mapped by its allocations.
  const bool hbm = chip.generation >= 3 && info.block == NEURON_DM_BLOCK_HBM && id < chip.hbms;
  if (core && info.resource == NEURON_DM_RESOURCE_SEMAPHORE) {
    info.offset = nd_chip_core_cookie(&chip, id) + NEURON_CORE_SEMAPHORES;
    info.size = NEURON_SEM_BLOCK_SIZE;
  } else if (core && info.resource == NEURON_DM_RESOURCE_SBUF) {
    info.offset = nd_chip_core_cookie(&chip, id);
    info.size = NEURON_CORE_SBUF_SIZE;
  } else if (topsp && info.resource == NEURON_DM_RESOURCE_SEMAPHORE) {
    info.offset = nd_chip_topsp_cookie(&chip, id);
    info.size = NEURON_SEM_BLOCK_SIZE;
  } else if (topsp && info.resource == NEURON_DM_RESOURCE_ALL) {
    info.offset = nd_chip_topsp_cookie(&chip, id);
    info.size = NEURON_V2_TOPSP_WINDOW_SIZE;
  } else if (hbm && info.resource == NEURON_DM_RESOURCE_DMEM) {
    info.offset = nd_chip_hbm_base(&chip, id);
    info.size = device_.chip().config().hbm_bytes_each;
  } else {
    return fail(-EINVAL, "device %u: block %u number %u has no resource %u", device_.index(),
                info.block, id, info.resource);
  }
  return 0;
}

}  // namespace neuron::service
