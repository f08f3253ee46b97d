// SPDX-License-Identifier: Apache-2.0
// Copies: between host buffers and device memory, inside the device, to the chip; fills.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "driver/ndl/device_table.h"
#include "driver/ndl/guard.h"
#include "driver/ndl/handle_table.h"
#include "ndl/ndl_memory.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::clear_error;
using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::fail;
using neuron::ndl::find_allocation;
using neuron::ndl::guarded;
using neuron::ndl::HeldAllocation;

namespace {

// Drivers of the 2.2x series look at the low 32 bits of a copy's size only.
constexpr uint64_t kPiece = 1ull << 30;

enum class Direction : uint32_t { kFromDevice = 0, kToDevice = 1 };

const char* name_of(Direction direction) {
  return direction == Direction::kToDevice ? "a write" : "a read";
}

template <class Copy>
int in_pieces(uint64_t size, Copy&& copy) {
  for (uint64_t done = 0; done < size;) {
    const uint64_t piece = std::min(size - done, kPiece);
    if (const int result = copy(done, piece); result != 0) return result;
    done += piece;
  }
  return 0;
}

int copy_bounced(const HeldAllocation& held, void* buffer, uint64_t offset, uint64_t size,
                 Direction direction) {
  return in_pieces(size, [&](uint64_t done, uint64_t piece) {
    neuron_ioctl_mem_buf_copy64 request = {};
    request.mem_handle = held.driver_handle();
    request.buffer = static_cast<char*>(buffer) + done;
    request.size = piece;
    request.offset = offset + done;
    request.copy_to_mem_handle = static_cast<__u32>(direction);
    return held.device->call(
        NEURON_IOCTL_MEM_BUF_COPY64, &request,
        direction == Direction::kToDevice ? "writing memory" : "reading memory");
  });
}

// How much of a transfer the next call of driver 2.24 may take. That driver pins 64 pages at a time
// and has a table of so many. A transfer of up to their bytes is one piece to it, even one that
// begins inside a page and touches 65: it then writes behind its table, into whatever the kernel
// keeps there. So such a transfer is cut where the table is full.
uint64_t pinned_at_once(const void* buffer, uint64_t size) {
  constexpr uint64_t kPages = 64;
  const auto page = static_cast<uint64_t>(getpagesize());
  const uint64_t inside = reinterpret_cast<uintptr_t>(buffer) % page;
  const uint64_t most = kPages * page;
  return size <= most && inside + size > most ? most - inside : size;
}

// What the call of driver 2.24 takes: no queue and no threshold.
int copy_zero_copy_2_24(const HeldAllocation& held, char* buffer, uint64_t offset, uint64_t size,
                        Direction direction, const char* what) {
  for (uint64_t done = 0; done < size;) {
    neuron_ioctl_mem_buf_copy64 request = {};
    request.mem_handle = held.driver_handle();
    request.buffer = buffer + done;
    request.size = pinned_at_once(buffer + done, size - done);
    request.offset = offset + done;
    request.copy_to_mem_handle = static_cast<__u32>(direction);
    const int result = held.device->call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24, &request, what);
    if (result != 0) return result;
    done += request.size;
  }
  return 0;
}

int copy_zero_copy(const HeldAllocation& held, void* buffer, uint64_t offset, uint64_t size,
                   Direction direction, int qid, uint32_t threshold) {
  const char* what = direction == Direction::kToDevice ? "writing memory without a copy"
                                                       : "reading memory without a copy";
  return in_pieces(size, [&](uint64_t done, uint64_t piece) {
    char* at = static_cast<char*>(buffer) + done;
    if (!held.device->has(NEURON_DRIVER_FEATURE_ZEROCOPY)) {
      return copy_zero_copy_2_24(held, at, offset + done, piece, direction, what);
    }
    neuron_ioctl_mem_buf_copy64zc request = {};
    request.mem_handle = held.driver_handle();
    request.buffer = at;
    request.size = piece;
    request.offset = offset + done;
    request.is_copy_to_device = static_cast<__u32>(direction);
    request.bar4_wr_threshold = threshold;
    request.h2t_qid = qid;
    return held.device->call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64, &request, what);
  });
}

bool has_zero_copy(const HeldAllocation& held) {
  // Relaxed: a race only costs one more refused call.
  return !held.device->zero_copy_refused().load(std::memory_order_relaxed);
}

int copy(uint64_t mem_handle, void* buffer, uint64_t offset, uint64_t size, Direction direction,
         bool zero_copy, int qid, uint32_t threshold, const char* function) {
  const HeldAllocation held = find_allocation(mem_handle, function);
  if (!held) return -EINVAL;
  if (buffer == nullptr && size != 0) return fail(-EINVAL, "%s: buffer is null", function);
  if (const int result = held.check_range(offset, size, name_of(direction)); result != 0) {
    return result;
  }
  if (zero_copy && has_zero_copy(held)) {
    const int result = copy_zero_copy(held, buffer, offset, size, direction, qid, threshold);
    // Arguments are good, so EINVAL with the default queue means that the driver does not do this
    // on this chip (the public one of version 2.25 on generation 2), or is older than the call.
    const bool chose_queue =
        qid != NEURON_DMA_H2T_DEFAULT_QID && held.device->has(NEURON_DRIVER_FEATURE_ZEROCOPY);
    if (result != -EINVAL || chose_queue) return result;
    held.device->zero_copy_refused().store(true, std::memory_order_relaxed);
    clear_error();
  }
  return copy_bounced(held, buffer, offset, size, direction);
}

// Both ends of a copy, on one device.
struct Pair {
  HeldAllocation source, destination;
  int find(uint64_t source_handle, uint64_t destination_handle, uint64_t source_offset,
           uint64_t destination_offset, uint64_t size, const char* function) {
    source = find_allocation(source_handle, function);
    if (!source) return -EINVAL;
    destination = find_allocation(destination_handle, function);
    if (!destination) return -EINVAL;
    if (source.device != destination.device) {
      return fail(-EXDEV, "%s: the source is on device %d and the destination on device %d",
                  function, source.device->index(), destination.device->index());
    }
    const int result = source.check_range(source_offset, size, "the source of a copy");
    return result != 0
               ? result
               : destination.check_range(destination_offset, size, "the destination of a copy");
  }
};

}  // namespace

int ndl_memory_buf_copyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size) {
  return guarded("ndl_memory_buf_copyin", [&] {
    return copy(mem_handle, buffer, offset, size, Direction::kToDevice, false, 0, 0,
                "ndl_memory_buf_copyin");
  });
}

int ndl_memory_buf_copyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size) {
  return guarded("ndl_memory_buf_copyout", [&] {
    return copy(mem_handle, buffer, offset, size, Direction::kFromDevice, false, 0, 0,
                "ndl_memory_buf_copyout");
  });
}

int ndl_memory_buf_zerocopyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size,
                              int qid, uint32_t bar4_wr_threshold) {
  return guarded("ndl_memory_buf_zerocopyin", [&] {
    return copy(mem_handle, buffer, offset, size, Direction::kToDevice, true, qid,
                bar4_wr_threshold, "ndl_memory_buf_zerocopyin");
  });
}

int ndl_memory_buf_zerocopyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size,
                               int qid) {
  return guarded("ndl_memory_buf_zerocopyout", [&] {
    return copy(mem_handle, buffer, offset, size, Direction::kFromDevice, true, qid, 0,
                "ndl_memory_buf_zerocopyout");
  });
}

int ndl_memory_buf_batch_copy(neuron_memcpy_batch_t* batches, uint64_t num_batches,
                              uint32_t direction, int qid) {
  return guarded("ndl_memory_buf_batch_copy", [&] {
    if (num_batches == 0) return 0;
    if (batches == nullptr || direction > 1 || num_batches > UINT32_MAX) {
      return fail(-EINVAL,
                  "ndl_memory_buf_batch_copy: batches is null, direction is %u, or there are "
                  "%llu batches",
                  direction, static_cast<unsigned long long>(num_batches));
    }
    const auto way = static_cast<Direction>(direction);
    // All is checked before the first byte moves.
    std::vector<HeldAllocation> held(num_batches);
    std::vector<neuron_memcpy_batch_t> translated(batches, batches + num_batches);
    for (uint64_t i = 0; i < num_batches; ++i) {
      const neuron_memcpy_batch_t& batch = batches[i];
      held[i] = find_allocation(batch.mem_handle, "ndl_memory_buf_batch_copy");
      if (!held[i]) return -EINVAL;
      if (held[i].device != held[0].device) {
        return fail(
            -EXDEV, "ndl_memory_buf_batch_copy: batch 0 is on device %d and batch %llu on %d",
            held[0].device->index(), static_cast<unsigned long long>(i), held[i].device->index());
      }
      if (batch.ops_ptr == nullptr && batch.num_ops != 0) {
        return fail(-EINVAL, "ndl_memory_buf_batch_copy: batch %llu has no operations",
                    static_cast<unsigned long long>(i));
      }
      for (uint32_t op = 0; op < batch.num_ops; ++op) {
        const nrt_tensor_batch_op_t& transfer = batch.ops_ptr[op];
        uint64_t offset = 0;
        if (transfer.buffer == nullptr ||
            __builtin_add_overflow(batch.mem_handle_offset, transfer.offset, &offset)) {
          return fail(-EINVAL,
                      "ndl_memory_buf_batch_copy: operation %u of batch %llu has no buffer "
                      "or an offset beyond 64 bits",
                      op, static_cast<unsigned long long>(i));
        }
        const int result = held[i].check_range(offset, transfer.size, name_of(way));
        if (result != 0) return result;
      }
      translated[i].mem_handle = held[i].driver_handle();
      translated[i].flags = 0;
    }
    if (held[0].device->has(NEURON_DRIVER_FEATURE_ZEROCOPY) && has_zero_copy(held[0])) {
      neuron_ioctl_mem_buf_copy64zc_batches request = {};
      request.batches_ptr = translated.data();
      request.num_batches = static_cast<__u32>(num_batches);
      request.is_copy_to_device = static_cast<__u16>(direction);
      request.h2t_qid = qid;
      const int result = held[0].device->call(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES, &request,
                                              "a batch of transfers");
      if (result != -EINVAL) return result;
      // The driver refuses operations of 0 bytes, and all of them on chips without zero-copy.
      clear_error();
    }
    for (uint64_t i = 0; i < num_batches; ++i) {
      for (uint32_t op = 0; op < batches[i].num_ops; ++op) {
        const nrt_tensor_batch_op_t& transfer = batches[i].ops_ptr[op];
        const int result =
            copy(batches[i].mem_handle, transfer.buffer,
                 batches[i].mem_handle_offset + transfer.offset, transfer.size, way, true, qid,
                 batches[i].bar4_wr_threshold, "ndl_memory_buf_batch_copy");
        if (result != 0) return result;
      }
    }
    return 0;
  });
}

int ndl_program_engine(ndl_device_t* device, uint32_t nc_id, uint64_t dst, void* buffer,
                       uint64_t offset, size_t size) {
  return guarded("ndl_program_engine", [&] {
    if (buffer == nullptr) return fail(-EINVAL, "ndl_program_engine: buffer is null");
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_program_engine_nc64 request = {};
    request.nc_id = nc_id;
    request.dst = dst;
    request.buffer = buffer;
    request.size = size;
    request.offset = offset;
    return open->call(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &request, "programming an engine");
  });
}

int ndl_memset(const uint64_t addr, uint64_t offset, const int value, const size_t size) {
  return guarded("ndl_memset", [&] {
    const HeldAllocation held = find_allocation(addr, "ndl_memset");
    if (!held) return -EINVAL;
    if (const int result = held.check_range(offset, size, "a fill"); result != 0) return result;
    return in_pieces(size, [&](uint64_t done, uint64_t piece) {
      neuron_ioctl_memset64 request = {};
      request.mem_handle = held.driver_handle();
      request.offset = offset + done;
      request.value = static_cast<__u32>(value) & 0xFF;
      request.size = piece;
      return held.device->call(NEURON_IOCTL_MEMSET64, &request, "filling memory");
    });
  });
}

int ndl_memory_copy(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                    uint64_t dst_offset, size_t size) {
  return guarded("ndl_memory_copy", [&] {
    Pair pair;
    int result =
        pair.find(src_mem_handle, dst_mem_handle, src_offset, dst_offset, size, "ndl_memory_copy");
    if (result != 0) return result;
    return in_pieces(size, [&](uint64_t done, uint64_t piece) {
      neuron_ioctl_mem_copy64 request = {};
      request.src_mem_handle = pair.source.driver_handle();
      request.dst_mem_handle = pair.destination.driver_handle();
      request.size = piece;
      request.src_offset = src_offset + done;
      request.dst_offset = dst_offset + done;
      return pair.source.device->call(NEURON_IOCTL_MEM_COPY64, &request, "copying memory");
    });
  });
}

int ndl_memory_copy_as(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                       uint64_t dst_offset, size_t size, uint64_t prefetch_addr, int* wait_handle) {
  return guarded("ndl_memory_copy_as", [&] {
    if (wait_handle == nullptr) return fail(-EINVAL, "ndl_memory_copy_as: wait_handle is null");
    Pair pair;
    int result = pair.find(src_mem_handle, dst_mem_handle, src_offset, dst_offset, size,
                           "ndl_memory_copy_as");
    if (result != 0) return result;
    neuron_ioctl_mem_copy_async64 request = {};
    request.src_mem_handle = pair.source.driver_handle();
    request.dst_mem_handle = pair.destination.driver_handle();
    request.size = size;
    request.src_offset = src_offset;
    request.dst_offset = dst_offset;
    request.host_prefetch_addr = prefetch_addr;
    request.pwait_handle = static_cast<__u32>(*wait_handle);
    result = pair.source.device->call(NEURON_IOCTL_MEM_COPY_ASYNC64, &request, "starting a copy");
    if (result == 0) *wait_handle = static_cast<int>(request.wait_handle);
    return result;
  });
}

int ndl_memory_copy_as_wait(uint64_t mem_handle, int wait_handle) {
  return guarded("ndl_memory_copy_as_wait", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_memory_copy_as_wait");
    if (!held) return -EINVAL;
    neuron_ioctl_mem_copy_async_wait request = {};
    // The driver finds the queue by the handles; the device side alone names it.
    request.src_mem_handle = held.driver_handle();
    request.dst_mem_handle = held.driver_handle();
    request.pwait_handle = static_cast<__u32>(wait_handle);
    return held.device->call(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, &request, "waiting for a copy");
  });
}
