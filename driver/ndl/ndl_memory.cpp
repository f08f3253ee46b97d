// SPDX-License-Identifier: Apache-2.0
// Allocation and mapping of device memory.
#include "ndl/ndl_memory.h"

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <memory>
#include <string>

#include "driver/ndl/device_table.h"
#include "driver/ndl/forget_lock.h"
#include "driver/ndl/guard.h"
#include "driver/ndl/handle_table.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::add_allocation;
using neuron::ndl::Allocation;
using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::fail;
using neuron::ndl::find_allocation;
using neuron::ndl::guarded;
using neuron::ndl::HeldAllocation;
using neuron::ndl::OpenDevice;

namespace {

// A thread that has a staging buffer gives it back after one copy of 2 MiB.
constexpr int kCopyBufferSeconds = 30;

int free_in_driver(const OpenDevice& open, uint64_t driver_handle) {
  neuron_ioctl_mem_free request = {};
  request.mem_handle = driver_handle;
  return open.call(NEURON_IOCTL_MEM_FREE, &request, "freeing memory");
}

// Asks the driver about a handle of its own and makes one of ours for it. On failure the driver's
// handle is still live.
int adopt(const DevicePointer& open, uint64_t driver_handle, uint32_t hbm, uint32_t nc_id,
          uint64_t align, bool owned, uint64_t* mem_handle) {
  auto allocation = std::make_shared<Allocation>(open);
  neuron_ioctl_mem_get_extended_info info = {};
  info.mem_handle = driver_handle;
  const int result = open->call(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info, "asking about memory");
  if (result != 0) return result;
  allocation->info.device = open->device();
  allocation->info.driver_handle = driver_handle;
  allocation->info.pa = info.pa;
  allocation->info.mmap_offset = info.mmap_offset;
  allocation->info.size = info.size;
  allocation->info.align = static_cast<uint32_t>(align);
  allocation->info.host_memory = info.host_memory;
  allocation->info.nc_id = static_cast<int>(nc_id);
  allocation->hbm = hbm;
  allocation->owned = owned;
  *mem_handle = add_allocation(std::move(allocation));
  return 0;
}

int allocate(const DevicePointer& open, uint64_t size, uint64_t align, uint32_t host_memory,
             uint32_t dram_channel, uint32_t dram_region, uint32_t nc_id, uint32_t category,
             uint64_t* mem_handle) {
  if (size == 0) return fail(-EINVAL, "device %d: an allocation of 0 bytes", open->index());
  __u64 driver_handle = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
  request.size = size;
  request.align = align;
  request.host_memory = host_memory;
  request.dram_channel = dram_channel;
  request.dram_region = dram_region;
  request.nc_id = nc_id;
  request.mem_type = category;
  request.mem_handle = &driver_handle;
  int result = open->call(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request, "allocating memory");
  if (result != 0) return result;
  try {
    result = adopt(open, driver_handle, dram_channel, nc_id, align, true, mem_handle);
  } catch (...) {
    free_in_driver(*open, driver_handle);
    throw;
  }
  if (result != 0) {
    // The caller must read about the first failure, so its sentence is restored.
    const std::string first = neuron::ndl::last_error();
    free_in_driver(*open, driver_handle);
    return fail(result, "%s", first.c_str());
  }
  return 0;
}

bool lock_within_seconds(pthread_mutex_t& mutex, int seconds) {
  timespec deadline;
#if NEURON_THREAD_SANITIZER
  // Thread sanitizers do not know pthread_mutex_clocklock and would treat the lock as free.
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += seconds;
  return pthread_mutex_timedlock(&mutex, &deadline) == 0;
#else
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += seconds;
  return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline) == 0;
#endif
}

}  // namespace

namespace neuron::ndl {

int adopt_notification_buffer(const DevicePointer& open, uint64_t driver_handle, uint32_t hbm,
                              uint32_t nc_id, uint64_t* mem_handle) {
  return adopt(open, driver_handle, hbm, nc_id, 0, false, mem_handle);
}

}  // namespace neuron::ndl

int ndl_memory_alloc(ndl_device_t* device, size_t size, uint64_t align, uint32_t host_memory,
                     uint32_t dram_channel, uint32_t dram_region, uint32_t nc_id,
                     uint32_t mem_alloc_type, uint64_t* mem_handle) {
  return guarded("ndl_memory_alloc", [&] {
    if (mem_handle == nullptr) return fail(-EINVAL, "ndl_memory_alloc: mem_handle is null");
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    return allocate(open, size, align, host_memory, dram_channel, dram_region, nc_id,
                    mem_alloc_type, mem_handle);
  });
}

int ndl_alloc_contiguous_scratchpad(ndl_device_t* device, uint64_t size, uint32_t hbm_index,
                                    uint32_t nc_id, uint64_t* mem_handle) {
  return guarded("ndl_alloc_contiguous_scratchpad", [&] {
    if (mem_handle == nullptr) {
      return fail(-EINVAL, "ndl_alloc_contiguous_scratchpad: mem_handle is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    if (!open->has(NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD)) {
      return fail(-ENOTSUP, "device %d: the driver has no contiguous scratchpad", open->index());
    }
    return allocate(open, size, 0, 0, hbm_index, 0, nc_id,
                    NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE, mem_handle);
  });
}

int ndl_memory_free(uint64_t mem_handle) {
  return guarded("ndl_memory_free", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_memory_free");
    // Of two threads that free one handle, the second finds it gone.
    if (!held || neuron::ndl::remove_allocation(mem_handle) == nullptr) return -EINVAL;
    const int unmapped = held.allocation->unmap(*held.device);
    const int freed =
        held.allocation->owned ? free_in_driver(*held.device, held.driver_handle()) : 0;
    return unmapped != 0 ? unmapped : freed;
  });
}

int ndl_memory_get_pa(uint64_t mem_handle, uint64_t* pa) {
  return guarded("ndl_memory_get_pa", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_memory_get_pa");
    if (!held) return -EINVAL;
    if (pa == nullptr) return fail(-EINVAL, "ndl_memory_get_pa: pa is null");
    *pa = held.allocation->info.pa;
    return 0;
  });
}

int ndl_memory_map(uint64_t mem_handle, void** va) {
  return guarded("ndl_memory_map", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_memory_map");
    if (!held) return -EINVAL;
    if (va == nullptr) return fail(-EINVAL, "ndl_memory_map: va is null");
    return held.allocation->map(*held.device, held.allocation->info.size, va);
  });
}

int ndl_memory_map_contiguous_scratchpad(uint64_t mem_handle, void** va, uint64_t size) {
  return guarded("ndl_memory_map_contiguous_scratchpad", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_memory_map_contiguous_scratchpad");
    if (!held) return -EINVAL;
    if (va == nullptr || size == 0) {
      return fail(-EINVAL, "ndl_memory_map_contiguous_scratchpad: va is null or size is 0");
    }
    return held.allocation->map(*held.device, size, va);
  });
}

int ndl_memory_unmap(uint64_t mem_handle) {
  return guarded("ndl_memory_unmap", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_memory_unmap");
    return held ? held.allocation->unmap(*held.device) : -EINVAL;
  });
}

int ndl_get_hbm_va(ndl_device_t* device, int hbm_idx, void** va, size_t* size) {
  return guarded("ndl_get_hbm_va", [&] {
    if (va == nullptr || size == nullptr) {
      return fail(-EINVAL, "ndl_get_hbm_va: va or size is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    if (hbm_idx < 0 || hbm_idx >= MAX_HBM_PER_DEVICE) {
      return fail(-EINVAL, "device %d has no HBM %d", open->index(), hbm_idx);
    }
    if (__atomic_load_n(&device->hbm_va_cnt, __ATOMIC_ACQUIRE) == 0) {
      return fail(-ENOTSUP,
                  "device %d: its HBM is not mapped whole, because the device was opened without "
                  "map_hbm or maps single allocations only",
                  open->index());
    }
    if (device->hbm_va[hbm_idx] == nullptr) {
      return fail(-EINVAL, "device %d has no HBM %d", open->index(), hbm_idx);
    }
    *va = device->hbm_va[hbm_idx];
    *size = device->hbm_size;
    return 0;
  });
}

int ndl_mem_get_mc_mmap_info(ndl_device_t* device, uint64_t pa, uint64_t* mmap_offset,
                             uint64_t* size, uint64_t* mem_handle) {
  return guarded("ndl_mem_get_mc_mmap_info", [&] {
    if (mmap_offset == nullptr || size == nullptr) {
      return fail(-EINVAL, "ndl_mem_get_mc_mmap_info: mmap_offset or size is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_mem_get_mc_mmap_info_v2 info = {};
    info.pa = pa;
    int result = open->call(NEURON_IOCTL_MEM_MC_GET_INFO_V2, &info, "finding an allocation");
    if (result != 0) return result;
    if (mem_handle != nullptr) {
      // The handle belongs to the allocating process: this process may use it but not free it.
      result = adopt(open, info.mem_handle, 0, 0, 0, false, mem_handle);
      if (result != 0) return result;
    }
    *mmap_offset = info.mmap_offset;
    *size = info.size;
    return 0;
  });
}

int ndl_get_va_placement(const void* va, int* device_index, int* hbm_index) {
  return guarded("ndl_get_va_placement", [&] {
    if (device_index == nullptr || hbm_index == nullptr) {
      return fail(-EINVAL, "ndl_get_va_placement: device_index or hbm_index is null");
    }
    if (neuron::ndl::find_mapping(va, device_index, hbm_index)) return 0;
    for (const DevicePointer& open : DeviceTable::instance().all()) {
      const ndl_device_t& device = *open->device();
      const uint32_t count = __atomic_load_n(&device.hbm_va_cnt, __ATOMIC_ACQUIRE);
      for (uint32_t i = 0; i < count; ++i) {
        const auto start = reinterpret_cast<uintptr_t>(device.hbm_va[i]);
        if (start != 0 && reinterpret_cast<uintptr_t>(va) - start < device.hbm_size) {
          *device_index = open->index();
          *hbm_index = static_cast<int>(i);
          return 0;
        }
      }
    }
    return fail(-EINVAL, "address %p is in no device memory that this process has mapped", va);
  });
}

int ndl_get_dmabuf_fd(uint64_t addr, uint64_t size, int* fd) {
  return guarded("ndl_get_dmabuf_fd", [&] {
    if (fd == nullptr) return fail(-EINVAL, "ndl_get_dmabuf_fd: fd is null");
    int device_index = 0, hbm_index = 0;
    const int placed =
        ndl_get_va_placement(reinterpret_cast<const void*>(addr), &device_index, &hbm_index);
    if (placed != 0) return placed;
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    if (!open->has(NEURON_DRIVER_FEATURE_DMABUF)) {
      return fail(-ENOTSUP, "device %d: the driver cannot export memory as dma-buf", open->index());
    }
    neuron_ioctl_dmabuf_fd request = {};
    __s32 exported = -1;
    request.va = addr;
    request.size = size;
    request.fd = &exported;
    const int result = open->call(NEURON_IOCTL_DMABUF_FD, &request, "exporting memory as dma-buf");
    if (result != 0) return result;
    *fd = exported;
    return 0;
  });
}

int ndl_dump_device_allocation_info(ndl_device_t* device, uint32_t hbm_index,
                                    struct neuron_ioctl_mem_chunk_info* data,
                                    uint32_t* num_entries) {
  return guarded("ndl_dump_device_allocation_info", [&] {
    if (num_entries == nullptr || (data == nullptr && *num_entries != 0)) {
      return fail(-EINVAL, "ndl_dump_device_allocation_info: data or num_entries is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dump_mem_chunks request = {};
    request.hbm_index = hbm_index;
    request.num_entries_in = *num_entries;
    request.data = data;
    const int result =
        open->call(NEURON_IOCTL_DUMP_MEM_CHUNKS, &request, "listing its allocations");
    if (result == 0 || result == -EAGAIN) *num_entries = request.num_entries_out;
    return result;
  });
}

int ndl_hbm_scrub_start(ndl_device_t* device, uint32_t nc_id, uint32_t hbm_index, uint32_t axi_port,
                        uint32_t init_val) {
  return guarded("ndl_hbm_scrub_start", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_hbm_scrub_start request = {};
    request.nc_id = nc_id;
    request.hbm_index = hbm_index;
    request.axi_port = axi_port;
    request.init_val = init_val;
    return open->call(NEURON_IOCTL_HBM_SCRUB_START, &request, "starting to fill an HBM");
  });
}

int ndl_hbm_scrub_wait(ndl_device_t* device, uint32_t nc_id, uint32_t hbm_index) {
  return guarded("ndl_hbm_scrub_wait", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_hbm_scrub_wait request = {};
    request.nc_id = nc_id;
    request.hbm_index = hbm_index;
    return open->call(NEURON_IOCTL_HBM_SCRUB_WAIT, &request, "waiting for the fill of an HBM");
  });
}

int ndl_get_copy_buf(ndl_device_t* device, uint32_t nc_id, ndl_copy_buf_t** cpy_buf) {
  return guarded("ndl_get_copy_buf", [&] {
    if (cpy_buf == nullptr) return fail(-EINVAL, "ndl_get_copy_buf: cpy_buf is null");
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    if (nc_id >= MAX_NC_PER_DEVICE) {
      return fail(-E2BIG, "device %d has no core %u", open->index(), nc_id);
    }
    ndl_copy_buf_t& buffer = device->cpy_bufs[nc_id];
    {
      const std::lock_guard lock(open->copy_buffer_mutex());
      if (buffer.mem_handle == 0) {
        uint64_t handle = 0;
        void* va = nullptr;
        int result = allocate(open, NDL_COPY_BUF_SIZE, 0, 1, 0, 0, nc_id,
                              NEURON_MEMALLOC_TYPE_MISC_HOST, &handle);
        if (result != 0) return result;
        result = ndl_memory_map(handle, &va);
        if (result != 0) {
          const std::string first = neuron::ndl::last_error();
          ndl_memory_free(handle);
          return fail(result, "%s", first.c_str());
        }
        buffer.mmap_va = va;
        buffer.mem_handle = handle;
      }
    }
    if (!lock_within_seconds(buffer.lock, kCopyBufferSeconds)) {
      return fail(-ETIMEDOUT,
                  "device %d core %u: another thread has held the staging buffer for %d s",
                  open->index(), nc_id, kCopyBufferSeconds);
    }
    *cpy_buf = &buffer;
    return 0;
  });
}
