// SPDX-License-Identifier: Apache-2.0
// Processes attached to a device, power and metrics, UltraServer membership.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "driver/ndl/device_table.h"
#include "driver/ndl/guard.h"
#include "ndl/ndl_device.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::fail;
using neuron::ndl::guarded;

namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// During an election the driver returns EBUSY but fills in all other fields.
int pod_status(neuron_ioctl_pod_status_v2* status) {
  *status = {};
  status->v1.sz = sizeof(*status);
  return DeviceTable::instance().ask(NEURON_IOCTL_POD_STATUS_V2, status,
                                     "asking for the state of the UltraServer");
}

}  // namespace

int ndl_get_all_apps_info(ndl_device_t* device, struct neuron_app_info** info, size_t* count,
                          uint16_t apps_info_flags) {
  return guarded("ndl_get_all_apps_info", [&] {
    if (info == nullptr || count == nullptr) {
      return fail(-EINVAL, "ndl_get_all_apps_info: info or count is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    constexpr size_t kEntries = NEURON_MAX_PROCESS_PER_DEVICE;
    std::unique_ptr<neuron_ioctl_get_apps_info, Free> request(
        static_cast<neuron_ioctl_get_apps_info*>(std::calloc(
            1, sizeof(neuron_ioctl_get_apps_info) + kEntries * sizeof(neuron_app_info))));
    std::unique_ptr<neuron_app_info, Free> entries(
        static_cast<neuron_app_info*>(std::calloc(kEntries, sizeof(neuron_app_info))));
    if (request == nullptr || entries == nullptr) {
      return fail(-ENOMEM, "device %d: listing its processes: out of memory", open->index());
    }
    request->apps_info_flags = apps_info_flags;
    request->capacity = kEntries;
    const int result =
        open->call(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, request.get(), "listing its processes");
    if (result != 0) return result;
    if (request->size > kEntries) {
      return fail(-EIO, "device %d: the driver lists %u processes in room for %zu", open->index(),
                  request->size, kEntries);
    }
    std::memcpy(entries.get(), request->app_data, request->size * sizeof(neuron_app_info));
    *count = request->size;
    *info = entries.release();
    return 0;
  });
}

int ndl_pod_info(uint32_t* pod_type, uint32_t* pod_sz) {
  return guarded("ndl_pod_info", [&] {
    if (pod_type == nullptr || pod_sz == nullptr) {
      return fail(-EINVAL, "ndl_pod_info: pod_type or pod_sz is null");
    }
    neuron_ioctl_pod_info pod = {};
    pod.sz = sizeof(pod);
    const int result = DeviceTable::instance().ask(NEURON_IOCTL_POD_INFO, &pod,
                                                   "asking which UltraServer this is");
    if (result != 0) return result;
    *pod_type = pod.pod_type;
    *pod_sz = pod.pod_sz;
    return 0;
  });
}

int ndl_pod_election_state(uint32_t* state) {
  return guarded("ndl_pod_election_state", [&] {
    if (state == nullptr) return fail(-EINVAL, "ndl_pod_election_state: state is null");
    neuron_ioctl_pod_status_v2 status;
    const int result = pod_status(&status);
    if (result != 0 && result != -EBUSY) return result;
    *state = status.v1.state;
    return 0;
  });
}

int ndl_pod_mapping_info(int* node_id) {
  return guarded("ndl_pod_mapping_info", [&] {
    if (node_id == nullptr) return fail(-EINVAL, "ndl_pod_mapping_info: node_id is null");
    neuron_ioctl_pod_status_v2 status;
    const int result = pod_status(&status);
    if (result != 0) return result;
    *node_id = status.v1.node_id;
    return 0;
  });
}

int ndl_pod_status(uint8_t* pod_id, uint32_t* state, uint32_t* pod_type, uint32_t* pod_sz,
                   int* node_id, enum neuron_ultraserver_mode* mode, uint32_t* modes_supported) {
  return guarded("ndl_pod_status", [&] {
    if (pod_id == nullptr || state == nullptr || pod_type == nullptr || pod_sz == nullptr ||
        node_id == nullptr || mode == nullptr || modes_supported == nullptr) {
      return fail(-EINVAL, "ndl_pod_status: an output pointer is null");
    }
    neuron_ioctl_pod_status_v2 status;
    const int result = pod_status(&status);
    if (result != 0 && result != -EBUSY) return result;
    std::memcpy(pod_id, status.v1.pod_id, sizeof(status.v1.pod_id));
    *state = status.v1.state;
    *pod_type = status.v1.pod_type;
    *pod_sz = status.v1.pod_sz;
    *node_id = status.v1.node_id;
    *mode = static_cast<enum neuron_ultraserver_mode>(status.mode);
    *modes_supported = status.modes_supported;
    return result;
  });
}

int ndl_pod_ctrl(uint32_t ctrl, enum neuron_ultraserver_mode mode, uint32_t timeout,
                 uint32_t* state) {
  return guarded("ndl_pod_ctrl", [&] {
    if (state == nullptr) return fail(-EINVAL, "ndl_pod_ctrl: state is null");
    neuron_ioctl_pod_ctrl_v2 control = {};
    control.v1.sz = sizeof(control);
    control.v1.ctrl = ctrl;
    control.v1.timeout = timeout;
    control.mode = static_cast<__u32>(mode);
    const int result =
        DeviceTable::instance().ask(NEURON_IOCTL_POD_CTRL_V2, &control, "steering the UltraServer");
    if (result != 0) return result;
    *state = control.v1.state;
    return 0;
  });
}

int ndl_set_performance_profile(ndl_device_t* device, uint32_t profile) {
  return guarded("ndl_set_performance_profile", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_power_profile power = {};
    power.sz = sizeof(power);
    power.profile = profile;
    return open->call(NEURON_IOCTL_POWER_PROFILE, &power, "setting the performance profile");
  });
}

int ndl_enable_throttling_notifications(ndl_device_t* device, bool) {
  return guarded("ndl_enable_throttling_notifications", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    return fail(
        -ENOTSUP,
        "device %d: the driver's interface (2.24, 2.25) has no call that switches throttling "
        "notifications",
        open->index());
  });
}

int ndl_metrics_ctrl(ndl_device_t* device, enum neuron_metrics_mode mode) {
  return guarded("ndl_metrics_ctrl", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_metrics_ctrl control = {};
    control.mode = static_cast<__u32>(mode);
    return open->call(NEURON_IOCTL_METRICS_CTRL, &control, "pausing or resuming metrics");
  });
}
