// SPDX-License-Identifier: Apache-2.0
// Calls about the device itself: identity, versions, registers, processes.
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <string>

#include "driver/base/format.h"
#include "driver/core/queue.h"
#include "driver/emulator/chip/bus.h"
#include "driver/emulator/service/calls.h"
#include "driver/emulator/service/error.h"

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

int device_init(Session&, neuron_ioctl_device_init&) { return 0; }

int device_release(Session&) { return 0; }

int compatible_version(Session& session, neuron_ioctl_compatible_version& version) {
  version.min = session.device().layout().min_interface;
  version.max = session.device().layout().max_interface;
  return 0;
}

int basic_info(Session& session, neuron_ioctl_device_basic_info& info) {
  info.architecture = session.device().profile().architecture;
  info.revision = session.device().profile().revision;
  return 0;
}

int host_device_id(Session& session, neuron_ioctl_host_device_id& id) {
  id.host_device_id = session.device_index();
  return 0;
}

int device_info(Session& session, neuron_ioctl_device_info& info) {
  Device& device = session.device();
  std::memset(&info, 0, sizeof(info));
  const profiles::ChipPlace& place = device.place();
  info.architecture = device.profile().architecture;
  info.revision = device.profile().revision;
  info.connected_device_count = place.neighbour_count;
  for (unsigned i = 0; i < place.neighbour_count; ++i) {
    info.connected_devices[i] = place.neighbours[i];
  }
  info.bar_address[0] = device.bar_address();
  info.bar_size[0] = device.layout().bar0_bytes;
  return 0;
}

int driver_info(Session& session, neuron_ioctl_device_driver_info& info) {
  Device& device = session.device();
  if (info.size != 0 && info.size < sizeof(info)) {
    return fail(-EINVAL, "device %u: DRIVER_INFO_GET has room for %u bytes, needs %zu",
                session.device_index(), info.size, sizeof(info));
  }
  info.architecture = device.profile().architecture;
  info.revision = device.profile().revision;
  info.version = 0;
  info.size = sizeof(info);
  info.feature_flags1 = kFeatures;
  return 0;
}

int refuse_driver_info(Session& session, neuron_ioctl_device_driver_info&) {
  return fail(-kNotSupported, "device %u: the driver's information cannot be set",
              session.device_index());
}

int first_process(Session& session, __s32& pid) {
  Device& device = session.device();
  const std::lock_guard lock(device.mutex);
  pid = device.processes.slot[0].pid;
  return 0;
}

int apps_info(Session& session, neuron_ioctl_get_apps_info& info) {
  Device& device = session.device();
  const std::lock_guard lock(device.mutex);
  info.size = 0;
  for (const nd_process& process : device.processes.slot) {
    if (process.pid == 0 || info.size >= info.capacity) continue;
    neuron_app_info& app = info.app_data[info.size++];
    std::memset(&app, 0, sizeof(app));
    app.pid = process.pid;
    if (info.apps_info_flags & APP_INFO_PID_NC_LOCK_INFO) {
      for (uint32_t core = 0; core < device.cores() && core < APP_INFO_MAX_MODELS_PER_DEVICE;
           ++core) {
        const nd_core_lock& held = device.core_state[core].lock;
        if (held.pid != process.pid) continue;
        app.nc_lock_map |= static_cast<__u8>(1u << core);
        std::memcpy(app.uuid_data[core].value, held.uuid, sizeof(held.uuid));
      }
    }
    if (info.apps_info_flags & APP_INFO_PID_MEM_USAGE) {
      uint64_t host_bytes = 0;
      uint64_t device_bytes = 0;
      device.memory().usage(process.pid, &host_bytes, &device_bytes);
      app.host_mem_size = host_bytes;
      app.device_mem_size = device_bytes;
    }
  }
  return 0;
}

template <bool write>
int bar_access(Session& session, neuron_ioctl_bar_rw& access) {
  Device& device = session.device();
  const unsigned index = session.device_index();
  if (access.bar != 0) {
    return fail(-EINVAL, "device %u: registers are in BAR 0, found %u", index, access.bar);
  }
  if (access.count > kMaxRegisters) {
    return fail(-EINVAL, "device %u: at most %u registers at once, found %u", index, kMaxRegisters,
                access.count);
  }
  if (access.count == 0) return 0;
  if (int error = session.check_buffer(access.address, access.count * sizeof(uint64_t))) {
    return error;
  }
  if (int error = session.check_buffer(access.data, access.count * sizeof(uint32_t))) return error;
  // All are checked before the first is touched.
  for (uint32_t i = 0; i < access.count; ++i) {
    const uint64_t offset = access.address[i] - device.bar_address();
    if (offset >= device.layout().bar0_bytes || offset % 4) {
      return fail(-EINVAL,
                  "device %u: register %u at 0x%" PRIx64
                  " is not inside BAR 0; add the offset to bar_address of DEVICE_INFO",
                  index, i, static_cast<uint64_t>(access.address[i]));
    }
    if (write && nd_register_check_user_write(&device.layout(), offset) != 0) {
      return fail(
          -EINVAL,
          "device %u: register %u at offset 0x%" PRIx64
          " belongs to the driver (ring base, doorbell, engine of the host's copies or firmware)",
          index, i, offset);
    }
  }
  for (uint32_t i = 0; i < access.count; ++i) {
    const uint64_t offset = access.address[i] - device.bar_address();
    if (write) {
      device.chip().write_register(offset, access.data[i]);
    } else {
      access.data[i] = device.chip().read_register(offset);
    }
  }
  return 0;
}

int bdf(Session& session, neuron_ioctl_device_bdf& bdf) {
  const profiles::ChipPlace& place = session.device().place();
  bdf.bus_number = place.bus;
  bdf.slot = place.slot;
  bdf.func = place.function;
  return 0;
}

int bdf_ext(Session& session, neuron_ioctl_device_bdf_ext& bdf) {
  Device& device = session.device();
  const uint64_t index = uint64_t{session.device_index()} + bdf.nd_index;
  if (index >= device.profile().chips) {
    return fail(-EINVAL, "there is no device %" PRIu64 "; an emulated %s has %u", index,
                device.profile().name, device.profile().chips);
  }
  const profiles::ChipPlace& place = device.profile().places[index];
  bdf.domain = place.domain;
  bdf.bus_number = place.bus;
  bdf.slot = place.slot;
  bdf.func = place.function;
  return 0;
}

int routing_ids(Session& session, neuron_ioctl_host_device_id_to_rid_map& map) {
  Device& device = session.device();
  std::memset(&map, 0, sizeof(map));
  map.count = device.profile().chips;
  for (unsigned i = 0; i < device.profile().chips; ++i) {
    map.host_did_to_rid_map[i] = device.profile().places[i].routing_id;
  }
  return 0;
}

int print(Session& session, neuron_ioctl_printk& line) {
  if (line.size == 0 || line.size > kMaxLine) {
    return fail(-EFAULT, "device %u: a log line has 1 to %u bytes, found %u",
                session.device_index(), kMaxLine, line.size);
  }
  if (int error = session.check_buffer(line.buffer, line.size)) return error;
  const auto* text = static_cast<const char*>(line.buffer);
  if (text[line.size - 1] != 0) {
    return fail(-EBADMSG, "device %u: the log line does not end with NUL", session.device_index());
  }
  session.instance().log().write(session.client(),
                                 base::format("neuron{}: {}", session.device_index(), text));
  return 0;
}

int pid_state_dump(Session& session, neuron_ioctl_nc_pid_state_dump& dump) {
  int32_t owner = 0;
  {
    const std::lock_guard lock(session.instance().claims_mutex);
    owner = nd_claims_owner(&session.instance().claims, dump.nc_id);
  }
  session.instance().log().write(
      session.client(), base::format("neuron{}: core {} of the host is {}", session.device_index(),
                                     static_cast<uint32_t>(dump.nc_id),
                                     owner ? "marked by pid " + std::to_string(owner) : "free"));
  return 0;
}

int post_metric(Session& session, neuron_ioctl_post_metric& metric) {
  Device& device = session.device();
  if (int error = session.check_buffer(metric.data, metric.data_size)) return error;
  const std::lock_guard lock(device.firmware_mutex());
  return device.firmware().post_metric(
      {reinterpret_cast<const std::byte*>(metric.data), metric.data_size});
}

int control_metrics(Session& session, neuron_ioctl_metrics_ctrl& control) {
  Device& device = session.device();
  const std::lock_guard lock(device.mutex);
  if (control.mode <= NEURON_METRICS_MODE_PERIODIC_DISABLE) {
    device.metrics_paused = control.mode == NEURON_METRICS_MODE_PERIODIC_DISABLE;
  }
  return 0;
}

int power_profile(Session& session, neuron_ioctl_power_profile& power) {
  Device& device = session.device();
  if (power.sz != sizeof(power)) {
    return fail(-ENXIO, "device %u: POWER_PROFILE names %u bytes, expected %zu", device.index(),
                unsigned{power.sz}, sizeof(power));
  }
  if (power.ctrl != 0) {
    return fail(-kNotSupported, "device %u: power control %u is unknown", device.index(),
                power.ctrl);
  }
  if (!device.layout().has_power_profiles) return 0;  // accepted and ignored
  const std::lock_guard lock(device.firmware_mutex());
  return device.firmware().set_power_profile(static_cast<uint8_t>(power.profile));
}

// The registers are read here and not by the firmware, which takes one request at a time: a
// register of a core that computes is waited for, and resets of others would wait as well.
int hw_counters(Session& session, neuron_ioctl_read_hw_counters& counters) {
  Device& device = session.device();
  const unsigned index = device.index();
  if (counters.count == 0 || counters.count > kMaxRegisters) {
    return fail(-EINVAL, "device %u: 1 to %u hardware counters can be read at once, found %u",
                index, kMaxRegisters, counters.count);
  }
  if (int error = session.check_buffer(counters.address, counters.count * sizeof(uint64_t))) {
    return error;
  }
  if (int error = session.check_buffer(counters.data, counters.count * sizeof(uint32_t))) {
    return error;
  }
  // Checked in a copy, so that the process cannot change them between check and use.
  std::array<uint64_t, kMaxRegisters> addresses;
  std::memcpy(addresses.data(), counters.address, counters.count * sizeof(uint64_t));
  const chip::Bus& bus = device.chip().bus();
  for (uint32_t i = 0; i < counters.count; ++i) {
    const uint64_t address = addresses[i];
    if (address % 4 || bus.layout().is_routed(address) || !bus.layout().is_register(address)) {
      return fail(-EINVAL,
                  "device %u: hardware counter %u at device address 0x%" PRIx64
                  " is no register of this device: memory is read by copies of its handle",
                  index, i, address);
    }
  }
  for (uint32_t i = 0; i < counters.count; ++i) {
    if (session.abandoned()) return session.give_up("reading hardware counters");
    uint32_t value = 0xFFFFFFFFu;  // where nothing answers
    (void)bus.read32(addresses[i], value, chip::Access{});
    counters.data[i] = value;
  }
  return device.check_present();
}

int core_map(Session& session, neuron_ioctl_get_logical_to_physical_nc_map& request) {
  Device& device = session.device();
  const unsigned index = session.device_index();
  if (!nd_chip_maps_cores(&device.layout())) {
    return fail(-kNotSupported,
                "device %u: logical cores are physical cores on chips of generation %u", index,
                device.layout().generation);
  }
  if (request.mapping_version != 0) {
    return fail(-EINVAL, "device %u: core map version %u is unknown, there is version 0", index,
                request.mapping_version);
  }
  if (request.max_map_entries > ND_CORE_MAP_ENTRIES) {
    return fail(-EINVAL, "device %u: a core map has at most %u entries, found %u", index,
                ND_CORE_MAP_ENTRIES, request.max_map_entries);
  }
  neuron_ioctl_nc_map* map = request.map;
  const uint64_t entries = uint64_t{request.max_map_entries} * sizeof(map->mappings[0]);
  if (int error = session.check_buffer(map, sizeof(*map) + entries)) return error;
  map->num_entries = request.max_map_entries;
  for (uint32_t i = 0; i < request.max_map_entries; ++i) {
    const uint32_t owner = i / device.layout().cores;
    const uint32_t core = i % device.layout().cores;
    map->mappings[i] = {owner, session.instance().physical_core(owner, core)};
  }
  return 0;
}

int resource_info(Session& session, neuron_ioctl_resource_mmap_info& info) {
  Device& device = session.device();
  const nd_chip& chip = device.layout();
  const uint32_t id = info.block_id;
  const bool core = info.block == NEURON_DM_BLOCK_TPB && id < device.cores();
  const bool topsp = info.block == NEURON_DM_BLOCK_TOPSP && id < chip.topsps;
  // Else HBM is mapped by its allocations.
  const bool hbm = chip.maps_hbm && info.block == NEURON_DM_BLOCK_HBM && id < chip.hbms;
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
    info.size = device.chip().config().hbm_bytes_each;
  } else {
    return fail(-EINVAL, "device %u: block %u number %u has no resource %u", session.device_index(),
                info.block, id, info.resource);
  }
  return 0;
}

// The size that an argument names must be its own; a second form has the first in its member v1.
template <typename T>
int check_size(Session& session, const char* name, const T& argument) {
  unsigned size = 0;
  if constexpr (requires { argument.v1; }) {
    size = argument.v1.sz;
  } else {
    size = argument.sz;
  }
  if (size == sizeof(T)) return 0;
  return fail(-EINVAL, "device %u: %s names %u bytes, expected %zu", session.device_index(), name,
              size, sizeof(T));
}

constexpr auto has_size_of_info = [](Session& session, const auto& argument) {
  return check_size(session, "POD_INFO", argument);
};
constexpr auto has_size_of_status = [](Session& session, const auto& argument) {
  return check_size(session, "POD_STATUS", argument);
};
constexpr auto has_size_of_control = [](Session& session, const auto& argument) {
  return check_size(session, "POD_CTRL", argument);
};

int pod_info(Session& session, neuron_ioctl_pod_info& info) {
  session.instance().pod().info(info);
  return 0;
}

int pod_status_v2(Session& session, neuron_ioctl_pod_status_v2& status) {
  return session.instance().pod().status(status);
}

int pod_status(Session& session, neuron_ioctl_pod_status& status) {
  neuron_ioctl_pod_status_v2 all = {};
  const int error = session.instance().pod().status(all);
  all.v1.sz = status.sz;
  status = all.v1;
  return error;
}

int control_pod(Session& session, neuron_ioctl_pod_ctrl& control, uint32_t mode) {
  Instance& instance = session.instance();
  int error = 0;
  {
    const std::lock_guard lock(instance.claims_mutex);
    error = instance.pod().control(control, mode,
                                   {session.id(), session.pid(), instance.any_core_is_marked()});
  }
  // The limit that it needs is the daemon's: its operator has to know.
  if (error == -ENOMEM) {
    instance.log().write(session.client(), std::string("neuron-emulatord: ") + last_error());
  }
  return error;
}

int pod_control(Session& session, neuron_ioctl_pod_ctrl& control) {
  return control_pod(session, control, NEURON_ULTRASERVER_MODE_UNSET);
}

int pod_control_v2(Session& session, neuron_ioctl_pod_ctrl_v2& control) {
  return control_pod(session, control.v1, control.mode);
}

constexpr Call kDeviceRows[] = {
    call<device_init>(NEURON_IOCTL_DEVICE_INIT),
    call<device_release>(NEURON_IOCTL_DEVICE_RELEASE),
    call<device_info>(NEURON_IOCTL_DEVICE_INFO),
    call<first_process>(NEURON_IOCTL_DEVICE_APP_PID),
    call<apps_info>(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO),
    call<bar_access<false>>(NEURON_IOCTL_BAR_READ),
    call<bar_access<true>>(NEURON_IOCTL_BAR_WRITE),
    call<post_metric>(NEURON_IOCTL_POST_METRIC),
    call<compatible_version>(NEURON_IOCTL_COMPATIBLE_VERSION),
    call<basic_info>(NEURON_IOCTL_DEVICE_BASIC_INFO),
    call<bdf>(NEURON_IOCTL_DEVICE_BDF),
    call<bdf_ext>(NEURON_IOCTL_DEVICE_BDF_EXT),
    call<driver_info>(NEURON_IOCTL_DRIVER_INFO_GET),
    call<refuse_driver_info>(NEURON_IOCTL_DRIVER_INFO_SET),
    call<print>(NEURON_IOCTL_PRINTK),
    call<host_device_id>(NEURON_IOCTL_HOST_DEVICE_ID),
    call<routing_ids>(NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP),
    call<pid_state_dump>(NEURON_IOCTL_NC_PID_STATE_DUMP),
    call<core_map>(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP),
    call<hw_counters>(NEURON_IOCTL_READ_HW_COUNTERS),
    call<resource_info>(NEURON_IOCTL_RESOURCE_MMAP_INFO),
    call<control_metrics>(NEURON_IOCTL_METRICS_CTRL),
    call<power_profile>(NEURON_IOCTL_POWER_PROFILE),
    call<pod_info, has_size_of_info>(NEURON_IOCTL_POD_INFO),
    call<pod_status, has_size_of_status>(NEURON_IOCTL_POD_STATUS),
    call<pod_status_v2, has_size_of_status>(NEURON_IOCTL_POD_STATUS_V2),
    call<pod_control, has_size_of_control>(NEURON_IOCTL_POD_CTRL),
    call<pod_control_v2, has_size_of_control>(NEURON_IOCTL_POD_CTRL_V2),
};

}  // namespace

constinit const std::span<const Call> kDeviceCalls = kDeviceRows;

}  // namespace neuron::service
