// SPDX-License-Identifier: Apache-2.0
// Claims on cores, resets, locks, semaphores, events, datastore mappings.
#include "ndl/ndl_core.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "driver/ndl/device_table.h"
#include "driver/ndl/guard.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::DevicePointer;
using neuron::ndl::DevicePort;
using neuron::ndl::DeviceTable;
using neuron::ndl::explain;
using neuron::ndl::fail;
using neuron::ndl::guarded;

namespace {

using ClaimMap = decltype(neuron_ioctl_crwl_nc_map_ext::bitmap);
constexpr size_t kClaimBytes = sizeof(ClaimMap);

int call_on(const ndl_device_t* device, unsigned long request, void* argument, const char* what) {
  const DevicePointer open = DeviceTable::instance().find(device);
  return open == nullptr ? -ENODEV : open->call(request, argument, what);
}

int lock_call(ndl_device_t* device, unsigned long request, int nc_index,
              const struct neuron_uuid& uuid, const char* what) {
  return guarded(what, [&] {
    neuron_ioctl_crwl argument = {};
    argument.nc_id = static_cast<__u32>(nc_index);
    argument.uuid = uuid;
    return call_on(device, request, &argument, what);
  });
}

int semaphore_call(ndl_device_t* device, unsigned long request, int nc_index, uint32_t index,
                   uint32_t* value, const char* what) {
  return guarded(what, [&] {
    if (value == nullptr) return fail(-EINVAL, "%s: value is null", what);
    // There are 256 cells; the check of the driver does not suffice.
    if (index > 255) return fail(-EINVAL, "%s: there is no semaphore %u", what, index);
    neuron_ioctl_semaphore argument = {};
    argument.nc_id = static_cast<__u32>(nc_index);
    argument.semaphore_index = index;
    argument.value = *value;
    const int result = call_on(device, request, &argument, what);
    if (result == 0) *value = argument.value;
    return result;
  });
}

int event_call(ndl_device_t* device, unsigned long request, int nc_index, uint32_t index,
               uint32_t* value, const char* what) {
  return guarded(what, [&] {
    if (value == nullptr) return fail(-EINVAL, "%s: value is null", what);
    // The driver accepts 256 and does not check the core; both would reach a register elsewhere.
    if (index > 255) return fail(-EINVAL, "%s: there is no event %u", what, index);
    if (nc_index < 0 || nc_index >= MAX_NC_PER_DEVICE) {
      return fail(-E2BIG, "%s: there is no core %d", what, nc_index);
    }
    neuron_ioctl_event argument = {};
    argument.nc_id = static_cast<__u32>(nc_index);
    argument.event_index = index;
    argument.value = *value;
    const int result = call_on(device, request, &argument, what);
    if (result == 0) *value = argument.value;
    return result;
  });
}

}  // namespace

int ndl_crwl_nc_range_mark(uint32_t nc_count, uint32_t start_nc, uint32_t end_nc,
                           uint32_t* max_nc_available, uint64_t* bitmap, size_t size) {
  return guarded("ndl_crwl_nc_range_mark", [&] {
    if (bitmap == nullptr || size < sizeof(uint64_t)) {
      return fail(-EINVAL, "ndl_crwl_nc_range_mark: bitmap is null or smaller than 8 bytes");
    }
    if (end_nc >= size * 8) {
      return fail(-EINVAL, "ndl_crwl_nc_range_mark: core %u is beyond a bitmap of %zu bytes",
                  end_nc, size);
    }
    DeviceTable& table = DeviceTable::instance();
    return table.with_control([&](DevicePort& control) {
      neuron_ioctl_crwl_nc_map_ext request = {};
      request.nc_count = nc_count;
      request.start_nc_index = start_nc;
      request.end_nc_index = end_nc;
      const int result = control.ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &request);
      if (result != 0) {
        if (result == -EBUSY && max_nc_available != nullptr) {
          *max_nc_available = request.max_nc_available;
        }
        return explain(result > 0 ? -EIO : result,
                       "claiming %u cores between %u and %u (longest free run: %u)", nc_count,
                       start_nc, end_nc, request.max_nc_available);
      }
      uint64_t words[kClaimBytes / sizeof(uint64_t)];
      std::memcpy(words, request.bitmap, kClaimBytes);
      table.set_claims(words, std::size(words), true);
      std::memset(bitmap, 0, size);
      std::memcpy(bitmap, words, std::min(size, kClaimBytes));
      return 0;
    });
  });
}

int ndl_crwl_nc_range_unmark(uint64_t* bitmap, size_t size) {
  return guarded("ndl_crwl_nc_range_unmark", [&] {
    if (bitmap == nullptr) return fail(-EINVAL, "ndl_crwl_nc_range_unmark: bitmap is null");
    DeviceTable& table = DeviceTable::instance();
    return table.with_control([&](DevicePort& control) {
      uint64_t words[kClaimBytes / sizeof(uint64_t)] = {};
      std::memcpy(words, bitmap, std::min(size, kClaimBytes));
      neuron_ioctl_crwl_nc_map_ext request = {};
      std::memcpy(request.bitmap, words, kClaimBytes);
      const int result = control.ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0, &request);
      // The claims are forgotten even if the driver refuses: nobody wants these cores any more.
      // When nothing else needs the control device it is closed, which drops the marks that are
      // left.
      table.set_claims(words, std::size(words), false);
      return result == 0 ? 0 : explain(result > 0 ? -EIO : result, "giving cores back");
    });
  });
}

int ndl_reset_ncs(int device_index, int nc_map, uint32_t* request_id) {
  return guarded("ndl_reset_ncs", [&] {
    if (request_id == nullptr) return fail(-EINVAL, "ndl_reset_ncs: request_id is null");
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_device_reset request = {};
    request.nc_map = static_cast<__u32>(nc_map);
    const int result = open->call(NEURON_IOCTL_NC_RESET, &request, "resetting cores");
    if (result == 0) *request_id = request.request_id;
    return result;
  });
}

int ndl_ready_ncs(int device_index, uint32_t request_id, uint8_t* result) {
  return guarded("ndl_ready_ncs", [&] {
    if (result == nullptr) return fail(-EINVAL, "ndl_ready_ncs: result is null");
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_device_ready request = {};
    request.request_id = request_id;
    const int answer = open->call(NEURON_IOCTL_NC_RESET_READY, &request, "waiting for a reset");
    if (answer != 0) return answer;
    if (request.result == -EINTR) {
      return fail(-EINTR, "device %d: a signal ended the wait for a reset", open->index());
    }
    *result = request.result == 0 ? 1 : 0;
    return 0;
  });
}

int ndl_nc_init_set_state(ndl_device_t* device, uint32_t nc_id, uint32_t state,
                          uint32_t* new_state) {
  return guarded("ndl_nc_init_set_state", [&] {
    if (new_state == nullptr) return fail(-EINVAL, "ndl_nc_init_set_state: new_state is null");
    neuron_ioctl_cinit_set request = {};
    request.nc_id = nc_id;
    request.state = state;
    const int result = call_on(device, NEURON_IOCTL_CINIT_SET_STATE, &request,
                               "agreeing which process initialises a core");
    if (result == 0) *new_state = request.new_state;
    return result;
  });
}

int ndl_nc_model_started_count(ndl_device_t* device, uint32_t nc_id, uint64_t* started_count) {
  return guarded("ndl_nc_model_started_count", [&] {
    if (started_count == nullptr) {
      return fail(-EINVAL, "ndl_nc_model_started_count: started_count is null");
    }
    neuron_ioctl_nc_model_started_count request = {};
    request.nc_id = nc_id;
    const int result =
        call_on(device, NEURON_IOCTL_NC_MODEL_STARTED_COUNT, &request, "counting model starts");
    if (result == 0) *started_count = request.started_count;
    return result;
  });
}

int ndl_crwl_reader_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return lock_call(device, NEURON_IOCTL_CRWL_READER_ENTER, nc_index, uuid,
                   "entering a core as reader");
}

int ndl_crwl_reader_exit(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return lock_call(device, NEURON_IOCTL_CRWL_READER_EXIT, nc_index, uuid,
                   "leaving a core as reader");
}

int ndl_crwl_writer_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return lock_call(device, NEURON_IOCTL_CRWL_WRITER_ENTER, nc_index, uuid,
                   "entering a core as writer");
}

int ndl_crwl_writer_downgrade(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return lock_call(device, NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, nc_index, uuid,
                   "turning the writer of a core into a reader");
}

int ndl_nc_semaphore_increment(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                               uint32_t value) {
  return semaphore_call(device, NEURON_IOCTL_SEMAPHORE_INCREMENT, nc_index, semaphore_index, &value,
                        "incrementing a semaphore");
}

int ndl_nc_semaphore_decrement(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                               uint32_t value) {
  return semaphore_call(device, NEURON_IOCTL_SEMAPHORE_DECREMENT, nc_index, semaphore_index, &value,
                        "decrementing a semaphore");
}

int ndl_nc_semaphore_read(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                          uint32_t* value) {
  return semaphore_call(device, NEURON_IOCTL_SEMAPHORE_READ, nc_index, semaphore_index, value,
                        "reading a semaphore");
}

int ndl_nc_semaphore_write(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                           uint32_t value) {
  return semaphore_call(device, NEURON_IOCTL_SEMAPHORE_WRITE, nc_index, semaphore_index, &value,
                        "setting a semaphore");
}

int ndl_nc_event_get(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t* value) {
  return event_call(device, NEURON_IOCTL_EVENT_GET, nc_index, event_index, value,
                    "reading an event");
}

int ndl_nc_event_set(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t value) {
  return event_call(device, NEURON_IOCTL_EVENT_SET, nc_index, event_index, &value,
                    "setting an event");
}

int ndl_nds_open(ndl_device_t* device, int32_t pid, void** data, size_t* size) {
  return guarded("ndl_nds_open", [&] {
    if (data == nullptr || size == nullptr) {
      return fail(-EINVAL, "ndl_nds_open: data or size is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_neuron_ds_info request = {};
    request.pid = pid;
    int result = open->call(NEURON_IOCTL_ACQUIRE_NEURON_DS, &request, "finding a datastore");
    if (result != 0) return result;
    void* mapped = nullptr;
    const int protection = pid == 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    result = open->map(request.size, protection, request.mmap_offset, &mapped);
    if (result != 0) {
      if (pid == 0) {
        const std::string first = neuron::ndl::last_error();
        open->call(NEURON_IOCTL_RELEASE_NEURON_DS, &request, "giving a datastore up");
        return fail(result, "%s", first.c_str());
      }
      return result;
    }
    *data = mapped;
    *size = request.size;
    return 0;
  });
}

int ndl_nds_close(ndl_device_t* device, int32_t pid, void* data, size_t size) {
  return guarded("ndl_nds_close", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    const int unmapped = open->unmap(data, size);
    if (pid != 0) return unmapped;
    neuron_ioctl_neuron_ds_info request = {};
    const int released =
        open->call(NEURON_IOCTL_RELEASE_NEURON_DS, &request, "giving a datastore up");
    return unmapped != 0 ? unmapped : released;
  });
}
