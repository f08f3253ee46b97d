// SPDX-License-Identifier: Apache-2.0
//
// nrt_init, nrt_close, and queries about host, cores and library.
#include <algorithm>
#include <cstring>

#include "nrt/nrt.h"
#include "nrt/nrt_version.h"
#include "runtime/api/guard.h"
#include "runtime/base/log.h"
#include "runtime/device/driver_error.h"
#include "runtime/observe/version.h"
#include "runtime/profile/inspection.h"
#include "runtime/session/instance.h"
#include "runtime/session/memory_usage.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

NRT_STATUS total_count(const char* name, uint32_t* count) {
  return unguarded_state(
      name,
      [&]() -> Result<void> {
        if (count == nullptr) return null_argument("vnc_count");
        NEURON_TRY(host, host_cores());
        *count = host.total();
        return {};
      },
      Failure::kAnswer);
}

NRT_STATUS visible_count(const char* name, uint32_t* count) {
  return unguarded_state(
      name,
      [&]() -> Result<void> {
        if (count == nullptr) return null_argument("vnc_count");
        {
          SessionUse use;
          if (use) {
            *count = use->core_count();
            return {};
          }
        }
        NEURON_TRY(host, host_cores());
        NEURON_TRY(selection, read_core_selection());
        NEURON_TRY(visible, visible_core_count(host, selection));
        *count = visible;
        return {};
      },
      Failure::kAnswer);
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_init(nrt_framework_type_t framework, const char* fw_version,
                               const char* fal_version) {
  return unguarded_state("nrt_init", [&]() -> Result<void> {
    Caller caller;
    caller.framework = framework;
    if (fw_version != nullptr) caller.framework_version = fw_version;
    if (fal_version != nullptr) caller.abstraction_version = fal_version;
    NEURON_TRY(inspected, InspectSettings::from_environment());
    NEURON_CHECK(open_session(caller));
    for (const std::string& notice : inspected.notices) {
      log_notice(LogComponent::kNrt, "{}", notice);
    }
    const SessionUse use;
    if (!use || (!inspected.enabled && !inspected.on_fail) || Inspection::existing(*use)) return {};
    // A runtime without the session that was asked for is better than none.
    if (auto begun = Inspection::of(*use).begin(*use, inspected); !begun) {
      log_error(LogComponent::kNrt, "{}", begun.error().sentence);
    }
    return {};
  });
}

// nrt_close. The public header declares it without a result and the public guide with a status: who
// was compiled with either finds what it expects. The compiler, which has read the header, knows
// the function by another name.
extern "C" NRT_STATUS close_with_status(void) __asm__("nrt_close");
NRT_EXPORT NRT_STATUS close_with_status(void) {
  return unguarded_state(
      "nrt_close", [] { return close_session(); }, Failure::kUnseen);
}

NRT_EXPORT NRT_STATUS nrt_get_total_nc_count(uint32_t* vnc_count) {
  return total_count("nrt_get_total_nc_count", vnc_count);
}
NRT_EXPORT NRT_STATUS nrt_get_total_vnc_count(uint32_t* vnc_count) {
  return total_count("nrt_get_total_vnc_count", vnc_count);
}
NRT_EXPORT NRT_STATUS nrt_get_visible_nc_count(uint32_t* vnc_count) {
  return visible_count("nrt_get_visible_nc_count", vnc_count);
}
NRT_EXPORT NRT_STATUS nrt_get_visible_vnc_count(uint32_t* vnc_count) {
  return visible_count("nrt_get_visible_vnc_count", vnc_count);
}

NRT_EXPORT NRT_STATUS nrt_get_version(nrt_version_t* ver, size_t size) {
  return unguarded_state("nrt_get_version", [&]() -> Result<void> {
    if (ver == nullptr) return null_argument("ver");
    if (size == 0) return fail(NRT_INVALID, "size is 0");
    nrt_version_t version{};
    version.rt_major = kVersionMajor;
    version.rt_minor = kVersionMinor;
    version.rt_patch = kVersionPatch;
    version.rt_maintenance = kVersionMaintenance;
    std::snprintf(version.rt_detail, sizeof(version.rt_detail), "%s (open runtime)",
                  kRuntimeVersion);
    std::memcpy(ver, &version, std::min(size, sizeof(version)));
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t instance_info_len) {
  return guarded("nrt_get_instance_info", [&](Session&) -> Result<void> {
    if (info == nullptr) return null_argument("info");
    if (instance_info_len == 0) return fail(NRT_INVALID, "instance_info_len is 0");
    NEURON_TRY(host, host_cores());
    const nrt_instance_info_t found = describe_instance(host);
    std::memcpy(info, &found, std::min(instance_info_len, sizeof(found)));
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats,
                                               size_t stats_size_in, size_t* stats_size_out) {
  return guarded("nrt_get_vnc_memory_stats", [&](Session& session) -> Result<void> {
    if (stats == nullptr) return null_argument("stats");
    if (stats_size_in == 0) return fail(NRT_INVALID, "stats_size_in is 0");
    NEURON_TRY(core, session.core(vnc));
    NEURON_TRY(usage, read_memory_usage(core->device(), core->hbm()));
    nrt_vnc_memory_stats_t filled{};
    filled.bytes_used = usage.total;
    filled.bytes_limit = core->place().chip->hbm_bytes;
    const size_t size = std::min(stats_size_in, sizeof(filled));
    std::memcpy(stats, &filled, size);
    if (stats_size_out != nullptr) *stats_size_out = size;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t* host_device_id) {
  return guarded("nrt_host_device_id_get", [&](Session& session) -> Result<void> {
    if (host_device_id == nullptr) return null_argument("host_device_id");
    Device* device = session.device(neuron_dev);
    if (device == nullptr) {
      return fail(NRT_INVALID, "device {} has no core of this process", neuron_dev);
    }
    uint32_t id = 0;
    if (const int result = ndl_get_host_device_id(device->ndl(), &id); result != 0) {
      return driver_error(NRT_FAILURE, result, "asking for the host's number of device {}",
                          neuron_dev);
    }
    *host_device_id = id;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t* count,
                                                     uint32_t* host_did_to_rid_map) {
  return guarded("nrt_host_device_id_rid_map_get", [&](Session&) -> Result<void> {
    if (count == nullptr) return null_argument("count");
    if (host_did_to_rid_map == nullptr) return null_argument("host_did_to_rid_map");
    uint32_t map[MAX_NEURON_DEVICE_COUNT] = {};
    uint32_t devices = 0;
    if (const int result = ndl_get_host_device_id_to_rid_map(&devices, map); result != 0) {
      return driver_error(NRT_FAILURE, result, "asking for the routing ids of the host's devices");
    }
    std::copy(map, map + MAX_NEURON_DEVICE_COUNT, host_did_to_rid_map);
    *count = devices;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void** addr, size_t* size) {
  return guarded("nrt_get_hbm_mmap_va", [&](Session& session) -> Result<void> {
    if (addr == nullptr) return null_argument("addr");
    if (size == nullptr) return null_argument("size");
    Device* device = session.device(device_id);
    if (device == nullptr) {
      return fail(NRT_INVALID, "device {} has no core of this process", device_id);
    }
    if (hbm_idx < 0 || static_cast<uint32_t>(hbm_idx) >= device->chip().hbms) {
      return fail(NRT_INVALID_HANDLE, "device {} has {} HBMs, there is none numbered {}", device_id,
                  device->chip().hbms, hbm_idx);
    }
    void* address = nullptr;
    size_t bytes = 0;
    if (const int result = ndl_get_hbm_va(device->ndl(), hbm_idx, &address, &bytes); result != 0) {
      return driver_error(NRT_INVALID, result, "HBM {} of device {} is not mapped whole", hbm_idx,
                          device_id);
    }
    *addr = address;
    *size = bytes;
    return {};
  });
}
