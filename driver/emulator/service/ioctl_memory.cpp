// SPDX-License-Identifier: Apache-2.0
// Calls about memory: allocation, information, lists, scrubbing.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/core/descriptor.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"

namespace neuron::service {

int Session::dispatch_memory(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_MEM_ALLOC: {
      const auto& a = as<neuron_ioctl_mem_alloc>(argument);
      const uint32_t category =
          a.host_memory ? NEURON_MEMALLOC_TYPE_UNKNOWN_HOST : NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE;
      return allocate(a.size, 0, a.host_memory, a.dram_channel, a.dram_region, a.nc_id, category,
                      a.mem_handle);
    }
    case NEURON_IOCTL_MEM_ALLOC_V2: {
      const auto& a = as<neuron_ioctl_mem_alloc_v2>(argument);
      const uint32_t category =
          a.host_memory ? NEURON_MEMALLOC_TYPE_UNKNOWN_HOST : NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE;
      return allocate(a.size, a.align, a.host_memory, a.dram_channel, a.dram_region, a.nc_id,
                      category, a.mem_handle);
    }
    case NEURON_IOCTL_MEM_ALLOC_V2MT: {
      const auto& a = as<neuron_ioctl_mem_alloc_v2_mem_type>(argument);
      return allocate(a.size, a.align, a.host_memory, a.dram_channel, a.dram_region, a.nc_id,
                      a.mem_type, a.mem_handle);
    }
    case NEURON_IOCTL_MEM_ALLOC_V2MT64: {
      const auto& a = as<neuron_ioctl_mem_alloc_v2_mem_type64>(argument);
      return allocate(a.size, a.align, a.host_memory, a.dram_channel, a.dram_region, a.nc_id,
                      a.mem_type, a.mem_handle);
    }
    case NEURON_IOCTL_MEM_FREE:
      return device_.memory().free_handle(as<neuron_ioctl_mem_free>(argument).mem_handle);
    case NEURON_IOCTL_MEM_GET_PA: {
      const auto& info = as<neuron_ioctl_mem_get_pa>(argument);
      if (int error = check_buffer(info.pa, sizeof(*info.pa))) return error;
      int error = 0;
      const Pin chunk = pin(info.mem_handle, error);
      if (!error) *info.pa = chunk->address;
      return error;
    }
    case NEURON_IOCTL_MEM_GET_INFO: {
      const auto& info = as<neuron_ioctl_mem_get_info>(argument);
      if (int error = check_buffer(info.pa, sizeof(*info.pa))) return error;
      if (int error = check_buffer(info.mmap_offset, sizeof(*info.mmap_offset))) return error;
      int error = 0;
      const Pin chunk = pin(info.mem_handle, error);
      if (error) return error;
      *info.pa = chunk->address;
      *info.mmap_offset = chunk->address;
      return 0;
    }
    case NEURON_IOCTL_MEM_GET_EXTENDED_INFO:
      return memory_info(as<neuron_ioctl_mem_get_extended_info>(argument));
    case NEURON_IOCTL_MEM_MC_GET_INFO: {
      auto& info = as<neuron_ioctl_mem_get_mc_mmap_info>(argument);
      return chunk_at(info.pa, &info.mmap_offset, &info.size, nullptr);
    }
    case NEURON_IOCTL_MEM_MC_GET_INFO_V2: {
      auto& info = as<neuron_ioctl_mem_get_mc_mmap_info_v2>(argument);
      return chunk_at(info.pa, &info.mmap_offset, &info.size, &info.mem_handle);
    }
    case NEURON_IOCTL_DUMP_MEM_CHUNKS:
      return dump_chunks(as<neuron_ioctl_dump_mem_chunks>(argument));
    case NEURON_IOCTL_HBM_SCRUB_START:
      return scrub_start(as<neuron_ioctl_hbm_scrub_start>(argument));
    case NEURON_IOCTL_HBM_SCRUB_WAIT:
      return scrub_wait(as<neuron_ioctl_hbm_scrub_wait>(argument).hbm_index);
    default:
      return kNotMine;
  }
}

int Session::allocate(uint64_t size, uint64_t alignment, uint32_t host, uint32_t hbm,
                      uint32_t region, uint32_t core, uint32_t category, __u64* handle) {
  if (int error = check_buffer(handle, sizeof(*handle)))
    return error == -EFAULT ? -EACCES : error;  // what the public driver answers here
  AllocateRequest request;
  request.size = size;
  request.alignment = alignment;
  request.host = host != 0;
  request.hbm = hbm;
  request.region = region;
  request.core = core;
  request.category = category;
  request.session = id_;
  request.pid = pid_;
  Chunk* chunk = nullptr;
  if (int error = device_.memory().allocate(request, &chunk)) return error;
  *handle = chunk->handle;
  return 0;
}

int Session::memory_info(neuron_ioctl_mem_get_extended_info& info) {
  int error = 0;
  const Pin chunk = pin(info.mem_handle, error);
  if (error) return error;
  info.host_memory = chunk->host;
  info.mmap_offset = chunk->address;
  info.pa = chunk->address;
  info.pid = static_cast<__u64>(chunk->pid);
  info.size = chunk->size;
  return 0;
}

int Session::chunk_at(uint64_t address, __u64* offset, __u64* size, __u64* handle) {
  const Pin chunk = device_.memory().pin_address(address);
  if (!chunk)
    return fail(-ENOMEM, "device %u: no allocation contains address 0x%" PRIx64, device_.index(),
                address);
  if (handle) {
    uint32_t number = 0;
    if (int error = device_.memory().give_handle(*chunk, &number)) return error;
    *handle = number;
  }
  *offset = chunk->address;
  *size = chunk->size;
  return 0;
}

int Session::dump_chunks(neuron_ioctl_dump_mem_chunks& dump) {
  if (dump.hbm_index >= device_.memory().stacks())
    return fail(-EINVAL, "device %u has HBM 0 to %u, found %u", device_.index(),
                device_.memory().stacks() - 1, dump.hbm_index);
  const auto chunks = device_.memory().list(dump.hbm_index);
  dump.num_entries_out = static_cast<__u32>(chunks.size());
  if (dump.num_entries_in < chunks.size())
    return fail(-EAGAIN, "device %u: HBM %u holds %zu allocations, there is room for %u",
                device_.index(), dump.hbm_index, chunks.size(), dump.num_entries_in);
  if (int error = check_buffer(dump.data, chunks.size() * sizeof(chunks[0]))) return error;
  std::memcpy(dump.data, chunks.data(), chunks.size() * sizeof(chunks[0]));
  return 0;
}

int Session::scrub_start(const neuron_ioctl_hbm_scrub_start& scrub) {
  if (int error = check_core(scrub.nc_id)) return error;
  const uint64_t size = device_.chip().config().hbm_bytes_each;
  if (scrub.hbm_index >= device_.memory().stacks())
    return fail(-EPERM, "device %u has HBM 0 to %u, found %u", device_.index(),
                device_.memory().stacks() - 1, scrub.hbm_index);
  {
    const std::lock_guard lock(device_.mutex);
    if (device_.scrubbed[scrub.hbm_index])
      return fail(-EPERM, "device %u: HBM %u is being scrubbed; call HBM_SCRUB_WAIT first",
                  device_.index(), scrub.hbm_index);
    device_.scrubbed[scrub.hbm_index] = true;
  }
  // Filling every byte needs that much memory of the host; it is asked for first.
  int error = instance_.budget().reserve(size, "HBM to scrub", device_.index());
  if (!error) {
    const uint64_t base = nd_chip_hbm_base(&device_.layout(), scrub.hbm_index);
    for (uint64_t at = device_.layout().carve_out; at < size && !error; at += kStride)
      error = abandoned() ? give_up("a scrub")
                          : device_.ring(scrub.nc_id)
                                .fill32(base + at, scrub.init_val, std::min(size - at, kStride));
    instance_.budget().release(size);
  }
  if (error) {
    const std::lock_guard lock(device_.mutex);
    device_.scrubbed[scrub.hbm_index] = false;
  }
  return error;
}

int Session::scrub_wait(uint32_t hbm) {
  const std::lock_guard lock(device_.mutex);
  if (hbm >= device_.memory().stacks() || !device_.scrubbed[hbm])
    return fail(-EPERM, "device %u: no scrub of HBM %u was started", device_.index(), hbm);
  device_.scrubbed[hbm] = false;
  return 0;
}

}  // namespace neuron::service
