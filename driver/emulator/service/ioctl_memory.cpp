// SPDX-License-Identifier: Apache-2.0
// Calls about memory: allocation, information, lists, scrubbing.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/core/descriptor.h"
#include "driver/emulator/service/calls.h"
#include "driver/emulator/service/error.h"

namespace neuron::service {
namespace {

int allocate(Session& session, uint64_t size, uint64_t alignment, uint32_t host, uint32_t hbm,
             uint32_t region, uint32_t core, uint32_t category, __u64* handle) {
  Device& device = session.device();
  if (int error = session.check_buffer(handle, sizeof(*handle))) {
    return error == -EFAULT ? -EACCES : error;  // what the public driver answers here
  }
  AllocateRequest request;
  request.size = size;
  request.alignment = alignment;
  request.host = host != 0;
  request.hbm = hbm;
  request.region = region;
  request.core = core;
  request.category = category;
  request.session = session.id();
  request.client = session.client();
  Chunk* chunk = nullptr;
  if (int error = device.memory().allocate(request, &chunk)) return error;
  *handle = chunk->handle;
  return 0;
}

uint32_t unknown_category(uint32_t host) {
  return host ? NEURON_MEMALLOC_TYPE_UNKNOWN_HOST : NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE;
}

int mem_alloc(Session& session, neuron_ioctl_mem_alloc& a) {
  return allocate(session, a.size, 0, a.host_memory, a.dram_channel, a.dram_region, a.nc_id,
                  unknown_category(a.host_memory), a.mem_handle);
}

int mem_alloc_v2(Session& session, neuron_ioctl_mem_alloc_v2& a) {
  return allocate(session, a.size, a.align, a.host_memory, a.dram_channel, a.dram_region, a.nc_id,
                  unknown_category(a.host_memory), a.mem_handle);
}

// Of both widths.
template <typename Request>
int mem_alloc_typed(Session& session, Request& a) {
  return allocate(session, a.size, a.align, a.host_memory, a.dram_channel, a.dram_region, a.nc_id,
                  a.mem_type, a.mem_handle);
}

int mem_free(Session& session, neuron_ioctl_mem_free& request) {
  return session.device().memory().free_handle(request.mem_handle, session.client());
}

constexpr auto has_room_for_address = [](Session& session, const auto& argument) {
  return session.check_buffer(argument.pa, sizeof(*argument.pa));
};

int mem_get_pa(Session& session, neuron_ioctl_mem_get_pa& info) {
  int error = 0;
  const Pin chunk = session.pin(info.mem_handle, error);
  if (!error) *info.pa = chunk->address;
  return error;
}

int mem_get_info(Session& session, neuron_ioctl_mem_get_info& info) {
  if (int error = session.check_buffer(info.mmap_offset, sizeof(*info.mmap_offset))) return error;
  int error = 0;
  const Pin chunk = session.pin(info.mem_handle, error);
  if (error) return error;
  *info.pa = chunk->address;
  *info.mmap_offset = chunk->address;
  return 0;
}

int memory_info(Session& session, neuron_ioctl_mem_get_extended_info& info) {
  int error = 0;
  const Pin chunk = session.pin(info.mem_handle, error);
  if (error) return error;
  info.host_memory = chunk->host;
  info.mmap_offset = chunk->address;
  info.pa = chunk->address;
  info.pid = static_cast<__u64>(chunk->client.pid);
  info.size = chunk->size;
  return 0;
}

int chunk_at(Session& session, uint64_t address, __u64* offset, __u64* size, __u64* handle) {
  Device& device = session.device();
  const Pin chunk = device.memory().pin_address(address);
  if (!chunk || !session.may_use(*chunk)) {
    return fail(-ENOMEM, "device %u: no allocation contains address 0x%" PRIx64,
                session.device_index(), address);
  }
  if (handle) {
    uint32_t number = 0;
    if (int error = device.memory().give_handle(*chunk, &number)) return error;
    *handle = number;
  }
  *offset = chunk->address;
  *size = chunk->size;
  return 0;
}

int chunk_info(Session& session, neuron_ioctl_mem_get_mc_mmap_info& info) {
  return chunk_at(session, info.pa, &info.mmap_offset, &info.size, nullptr);
}

int chunk_info_v2(Session& session, neuron_ioctl_mem_get_mc_mmap_info_v2& info) {
  return chunk_at(session, info.pa, &info.mmap_offset, &info.size, &info.mem_handle);
}

int dump_chunks(Session& session, neuron_ioctl_dump_mem_chunks& dump) {
  Device& device = session.device();
  if (dump.hbm_index >= device.memory().stacks()) {
    return fail(-EINVAL, "device %u has HBM 0 to %u, found %u", session.device_index(),
                device.memory().stacks() - 1, dump.hbm_index);
  }
  const auto chunks = device.memory().list(dump.hbm_index);
  dump.num_entries_out = static_cast<__u32>(chunks.size());
  if (dump.num_entries_in < chunks.size()) {
    return fail(-EAGAIN, "device %u: HBM %u holds %zu allocations, there is room for %u",
                session.device_index(), dump.hbm_index, chunks.size(), dump.num_entries_in);
  }
  if (int error = session.check_buffer(dump.data, chunks.size() * sizeof(chunks[0]))) return error;
  std::memcpy(dump.data, chunks.data(), chunks.size() * sizeof(chunks[0]));
  return 0;
}

int fill_all(Session& session, uint32_t core, uint64_t address, uint64_t size, uint32_t value) {
  int error = 0;
  for (uint64_t done = 0; done < size && !error; done += Session::kStride) {
    error = session.abandoned()
                ? session.give_up("a scrub")
                : session.device().ring(core).fill32(address + done, value,
                                                     std::min(size - done, Session::kStride));
  }
  return error;
}

// Among processes, all memory that this one can read: what it gets later is zeros, and the rest is
// that of others.
int scrub_own(Session& session, const neuron_ioctl_hbm_scrub_start& scrub) {
  for (const Pin& chunk : session.device().memory().pin_all(scrub.hbm_index, session.client())) {
    if (int error = fill_all(session, scrub.nc_id, chunk->address, chunk->size, scrub.init_val)) {
      return error;
    }
  }
  return 0;
}

int scrub_whole(Session& session, const neuron_ioctl_hbm_scrub_start& scrub) {
  Device& device = session.device();
  const uint64_t size = device.chip().config().hbm_bytes_each;
  // Filling every byte needs that much memory of the host; it is asked for first.
  int error = session.instance().budget().reserve(size, session.client(), "HBM to scrub",
                                                  session.device_index());
  if (error) return error;
  const uint64_t reserved = device.layout().carve_out;
  error =
      fill_all(session, scrub.nc_id, nd_chip_hbm_base(&device.layout(), scrub.hbm_index) + reserved,
               size > reserved ? size - reserved : 0, scrub.init_val);
  session.instance().budget().release(size, session.client());
  return error;
}

int scrub_start(Session& session, neuron_ioctl_hbm_scrub_start& scrub) {
  Device& device = session.device();
  if (scrub.hbm_index >= device.memory().stacks()) {
    return fail(-EPERM, "device %u has HBM 0 to %u, found %u", session.device_index(),
                device.memory().stacks() - 1, scrub.hbm_index);
  }
  {
    const std::lock_guard lock(device.mutex);
    // A process's scrub fills what is its own: that of another one is no reason to wait.
    uint32_t& scrubbed = device.scrubbed[session.pid()];
    if (scrubbed >> scrub.hbm_index & 1) {
      return fail(-EPERM, "device %u: HBM %u is being scrubbed; call HBM_SCRUB_WAIT first",
                  session.device_index(), scrub.hbm_index);
    }
    scrubbed |= 1u << scrub.hbm_index;
  }
  const int error =
      session.client().process == 0 ? scrub_whole(session, scrub) : scrub_own(session, scrub);
  if (error) {
    const std::lock_guard lock(device.mutex);
    device.scrubbed[session.pid()] &= ~(1u << scrub.hbm_index);
  }
  return error;
}

int scrub_wait(Session& session, neuron_ioctl_hbm_scrub_wait& scrub) {
  const uint32_t hbm = scrub.hbm_index;
  Device& device = session.device();
  const std::lock_guard lock(device.mutex);
  const auto found = device.scrubbed.find(session.pid());
  if (hbm >= device.memory().stacks() || found == device.scrubbed.end() ||
      !(found->second >> hbm & 1)) {
    return fail(-EPERM, "device %u: no scrub of HBM %u was started", session.device_index(), hbm);
  }
  found->second &= ~(1u << hbm);
  return 0;
}

constexpr Call kMemoryRows[] = {
    call<mem_alloc>(NEURON_IOCTL_MEM_ALLOC),
    call<mem_alloc_v2>(NEURON_IOCTL_MEM_ALLOC_V2),
    call<mem_alloc_typed<neuron_ioctl_mem_alloc_v2_mem_type>>(NEURON_IOCTL_MEM_ALLOC_V2MT),
    call<mem_alloc_typed<neuron_ioctl_mem_alloc_v2_mem_type64>>(NEURON_IOCTL_MEM_ALLOC_V2MT64),
    call<mem_free>(NEURON_IOCTL_MEM_FREE),
    call<mem_get_pa, has_room_for_address>(NEURON_IOCTL_MEM_GET_PA),
    call<mem_get_info, has_room_for_address>(NEURON_IOCTL_MEM_GET_INFO),
    call<memory_info>(NEURON_IOCTL_MEM_GET_EXTENDED_INFO),
    call<chunk_info>(NEURON_IOCTL_MEM_MC_GET_INFO),
    call<chunk_info_v2>(NEURON_IOCTL_MEM_MC_GET_INFO_V2),
    call<dump_chunks>(NEURON_IOCTL_DUMP_MEM_CHUNKS),
    call<scrub_start, names_a_core>(NEURON_IOCTL_HBM_SCRUB_START),
    call<scrub_wait>(NEURON_IOCTL_HBM_SCRUB_WAIT),
};

}  // namespace

constinit const std::span<const Call> kMemoryCalls = kMemoryRows;

}  // namespace neuron::service
