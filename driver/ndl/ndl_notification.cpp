// SPDX-License-Identifier: Apache-2.0
// Notification queues.
#include <cerrno>
#include <memory>

#include "driver/ndl/device_table.h"
#include "driver/ndl/guard.h"
#include "driver/ndl/handle_table.h"
#include "ndl/ndl_core.h"
#include "ndl/ndl_memory.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::fail;
using neuron::ndl::find_allocation;
using neuron::ndl::find_notification;
using neuron::ndl::guarded;
using neuron::ndl::HeldAllocation;
using neuron::ndl::Notification;

namespace {

constexpr uint64_t kPageBytes = 4096;

// Adopts the queue's buffer and makes the context. The queue itself stays with the driver on
// failure: it lives until its core is reset, and asking again finds it.
int adopt_queue(const DevicePointer& open, Notification& notification, uint64_t driver_handle,
                uint32_t hbm, uint32_t asked, uint64_t* mem_handle) {
  const uint32_t core =
      notification.context.nq_dev_type == NQ_DEV_TYPE_NEURON_CORE ? notification.context.nc_id : 0;
  const int result =
      neuron::ndl::adopt_notification_buffer(open, driver_handle, hbm, core, mem_handle);
  if (result != 0) return result;
  const HeldAllocation held = find_allocation(*mem_handle, "a notification queue");
  if (!held) return -EINVAL;
  // An existing queue keeps its size, whatever was asked for. Memory comes in whole pages, so the
  // size of a ring smaller than a page is unknown: it counts as what was asked for if that many
  // bytes need a buffer of this size.
  const uint64_t allocated = held.allocation->info.size;
  const uint64_t in_pages = (uint64_t{asked} + kPageBytes - 1) / kPageBytes * kPageBytes;
  notification.context.size = in_pages == allocated ? asked : static_cast<uint32_t>(allocated);
  notification.context.mem_info = &held.allocation->info;
  notification.context.offset = held.allocation->info.mmap_offset;
  notification.context.mem_handle = *mem_handle;
  return 0;
}

int init(ndl_device_t* device, neuron_ioctl_notifications_init_with_realloc_v2& request,
         bool reallocate, uint64_t* notification_context) {
  if (notification_context == nullptr) {
    return fail(-EINVAL, "a notification queue: notification_context is null");
  }
  const DevicePointer open = DeviceTable::instance().find(device);
  if (open == nullptr) return -ENODEV;
  auto notification = std::make_shared<Notification>(open);
  ndl_notification_context_t& context = notification->context;
  context.nq_dev_id = static_cast<uint8_t>(request.nq_dev_id);
  context.nq_dev_type = static_cast<ndl_nq_dev_t>(request.nq_dev_type);
  context.nq_type = static_cast<uint8_t>(request.nq_type);
  context.engine_index = static_cast<uint8_t>(request.engine_index);
  context.fd = open->port().descriptor();
  uint64_t driver_handle = 0;
  if (reallocate) {
    const int result = open->call(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &request,
                                  "making a notification queue");
    if (result != 0) return result;
    driver_handle = request.mem_handle;
  } else {
    neuron_ioctl_notifications_init_v2 plain = {};
    plain.nq_dev_id = request.nq_dev_id;
    plain.nq_dev_type = request.nq_dev_type;
    plain.nq_type = request.nq_type;
    plain.engine_index = request.engine_index;
    plain.size = request.size;
    plain.on_host_memory = request.on_host_memory;
    plain.dram_channel = request.dram_channel;
    plain.dram_region = request.dram_region;
    const int result =
        open->call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &plain, "making a notification queue");
    if (result != 0) return result;
    driver_handle = plain.mem_handle;
  }
  uint64_t mem_handle = 0;
  const int result = adopt_queue(open, *notification, driver_handle, request.dram_channel,
                                 request.size, &mem_handle);
  if (result != 0) return result;
  try {
    *notification_context = neuron::ndl::add_notification(std::move(notification));
  } catch (...) {
    neuron::ndl::remove_allocation(mem_handle);
    throw;
  }
  return 0;
}

neuron_ioctl_notifications_init_with_realloc_v2 request_of(
    int nq_dev_id, ndl_nq_dev_t nq_dev_type, uint8_t nq_type, uint8_t engine_index, uint32_t size,
    bool on_host_memory, uint32_t dram_channel, uint32_t dram_region, bool force_alloc_mem) {
  neuron_ioctl_notifications_init_with_realloc_v2 request = {};
  request.nq_dev_id = static_cast<__u32>(nq_dev_id);
  request.nq_dev_type = static_cast<__u32>(nq_dev_type);
  request.nq_type = nq_type;
  request.engine_index = engine_index;
  request.size = size;
  request.on_host_memory = on_host_memory ? 1 : 0;
  request.dram_channel = dram_channel;
  request.dram_region = dram_region;
  request.force_alloc_mem = force_alloc_mem ? 1 : 0;
  return request;
}

}  // namespace

int ndl_notification_init(ndl_device_t* device, int nq_dev_id, ndl_nq_dev_t nq_dev_type,
                          uint8_t nq_type, uint8_t engine_index, uint32_t size, bool on_host_memory,
                          uint32_t dram_channel, uint32_t dram_region,
                          uint64_t* notification_context) {
  return guarded("ndl_notification_init", [&] {
    auto request = request_of(nq_dev_id, nq_dev_type, nq_type, engine_index, size, on_host_memory,
                              dram_channel, dram_region, false);
    return init(device, request, false, notification_context);
  });
}

int ndl_notification_init_with_realloc(ndl_device_t* device, int nq_dev_id,
                                       ndl_nq_dev_t nq_dev_type, uint8_t nq_type,
                                       uint8_t engine_index, uint32_t size, bool on_host_memory,
                                       uint32_t dram_channel, uint32_t dram_region,
                                       bool force_alloc_mem, uint64_t* notification_context) {
  return guarded("ndl_notification_init_with_realloc", [&] {
    auto request = request_of(nq_dev_id, nq_dev_type, nq_type, engine_index, size, on_host_memory,
                              dram_channel, dram_region, force_alloc_mem);
    return init(device, request, true, notification_context);
  });
}

int ndl_notification_get_mem_handle(uint64_t notification_context, uint64_t* mem_handle) {
  return guarded("ndl_notification_get_mem_handle", [&] {
    const auto found = find_notification(notification_context, "ndl_notification_get_mem_handle");
    if (found == nullptr) return -EINVAL;
    if (mem_handle == nullptr) {
      return fail(-EINVAL, "ndl_notification_get_mem_handle: mem_handle is null");
    }
    *mem_handle = found->context.mem_handle;
    return 0;
  });
}

int ndl_notification_get_size(uint64_t notification_context, uint32_t* size) {
  return guarded("ndl_notification_get_size", [&] {
    const auto found = find_notification(notification_context, "ndl_notification_get_size");
    if (found == nullptr) return -EINVAL;
    if (size == nullptr) return fail(-EINVAL, "ndl_notification_get_size: size is null");
    *size = found->context.size;
    return 0;
  });
}

int ndl_notification_map(uint64_t notification_context, void** va) {
  return guarded("ndl_notification_map", [&] {
    const auto found = find_notification(notification_context, "ndl_notification_map");
    if (found == nullptr) return -EINVAL;
    return ndl_memory_map(found->context.mem_handle, va);
  });
}

int ndl_notification_destroy(uint64_t notification_context) {
  return guarded("ndl_notification_destroy", [&] {
    const auto found = find_notification(notification_context, "ndl_notification_destroy");
    if (found == nullptr || neuron::ndl::remove_notification(notification_context) == nullptr) {
      return -EINVAL;
    }
    // Removes the mapping; the driver keeps the buffer, which the core still writes.
    return ndl_memory_free(found->context.mem_handle);
  });
}
