// SPDX-License-Identifier: Apache-2.0
// Calls that move bytes: copies between handles, buffers and on-chip memory, through the copy ring
// of a core.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/core/descriptor.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"

namespace neuron::service {
namespace {

// Pieces of 64 KiB that one asynchronous copy may have.
constexpr uint64_t kAsyncPieces = 2032;
constexpr uint64_t kPiece = 64 << 10;

}  // namespace

int Session::dispatch_copy(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_MEM_COPY: {
      const auto& c = as<neuron_ioctl_mem_copy>(argument);
      return copy(c.src_mem_handle, c.dst_mem_handle, c.size, c.src_offset, c.dst_offset);
    }
    case NEURON_IOCTL_MEM_COPY64: {
      const auto& c = as<neuron_ioctl_mem_copy64>(argument);
      return copy(c.src_mem_handle, c.dst_mem_handle, c.size, c.src_offset, c.dst_offset);
    }
    case NEURON_IOCTL_MEM_BUF_COPY: {
      const auto& c = as<neuron_ioctl_mem_buf_copy>(argument);
      return buffer_copy(c.mem_handle, c.buffer, c.size, c.offset, c.copy_to_mem_handle != 0);
    }
    case NEURON_IOCTL_MEM_BUF_COPY64:
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24: {
      const auto& c = as<neuron_ioctl_mem_buf_copy64>(argument);
      return buffer_copy(c.mem_handle, c.buffer, c.size, c.offset, c.copy_to_mem_handle != 0);
    }
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64:
      return zero_copy(as<neuron_ioctl_mem_buf_copy64zc>(argument));
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES:
      return zero_copy_batches(as<neuron_ioctl_mem_buf_copy64zc_batches>(argument));
    case NEURON_IOCTL_MEMSET: {
      const auto& m = as<neuron_ioctl_memset>(argument);
      return fill(m.mem_handle, m.offset, m.value, m.size);
    }
    case NEURON_IOCTL_MEMSET64: {
      const auto& m = as<neuron_ioctl_memset64>(argument);
      return fill(m.mem_handle, m.offset, m.value, m.size);
    }
    case NEURON_IOCTL_MEM_COPY_ASYNC: {
      auto& c = as<neuron_ioctl_mem_copy_async>(argument);
      const neuron_ioctl_mem_copy_async64 wide = {
          c.src_mem_handle, c.dst_mem_handle,     c.size,         c.src_offset,
          c.dst_offset,     c.host_prefetch_addr, c.pwait_handle, 0};
      return copy_async(wide, &c.wait_handle);
    }
    case NEURON_IOCTL_MEM_COPY_ASYNC64: {
      auto& c = as<neuron_ioctl_mem_copy_async64>(argument);
      return copy_async(c, &c.wait_handle);
    }
    case NEURON_IOCTL_MEM_COPY_ASYNC_WAIT:
      return copy_async_wait(as<neuron_ioctl_mem_copy_async_wait>(argument));
    case NEURON_IOCTL_PROGRAM_ENGINE: {
      const auto& p = as<neuron_ioctl_program_engine>(argument);
      return program_engine(0, p.dst, p.buffer, p.size, p.offset);
    }
    case NEURON_IOCTL_PROGRAM_ENGINE_NC: {
      const auto& p = as<neuron_ioctl_program_engine_nc>(argument);
      return program_engine(p.nc_id, p.dst, p.buffer, p.size, p.offset);
    }
    case NEURON_IOCTL_PROGRAM_ENGINE_NC64: {
      const auto& p = as<neuron_ioctl_program_engine_nc64>(argument);
      return program_engine(p.nc_id, p.dst, p.buffer, p.size, p.offset);
    }
    default:
      return kNotMine;
  }
}

int Session::copy(uint64_t from, uint64_t to, uint64_t size, uint64_t from_offset,
                  uint64_t to_offset) {
  int error = 0;
  const Pin source = pin(from, error);
  if (error) return error;
  const Pin destination = pin(to, error);
  if (error) return error;
  if ((error = check_range(*source, from_offset, size))) return error;
  if ((error = check_range(*destination, to_offset, size))) return error;
  // The queue of the side in HBM; of the destination if both or none are.
  CopyRing& ring = ring_of(destination->host && !source->host ? *source : *destination);
  for (uint64_t done = 0; done < size; done += kStride) {
    if (abandoned()) return give_up("a copy");
    if ((error = ring.copy(destination->address + to_offset + done,
                           source->address + from_offset + done, std::min(size - done, kStride))))
      return error;
  }
  return 0;
}

int Session::copy_async(const neuron_ioctl_mem_copy_async64& request, __u32* wait_handle) {
  // Handle of this transfer by the handle of the one before it: none, synchronous, 1, 2.
  uint32_t handle = 0;
  switch (static_cast<int32_t>(request.pwait_handle)) {
    case NEURON_DMA_H2T_CTX_HANDLE_NONE:
    case NEURON_DMA_H2T_CTX_HANDLE_ASYNC2:
      handle = NEURON_DMA_H2T_CTX_HANDLE_ASYNC1;
      break;
    case NEURON_DMA_H2T_CTX_HANDLE_ASYNC1:
      handle = NEURON_DMA_H2T_CTX_HANDLE_ASYNC2;
      break;
    case NEURON_DMA_H2T_CTX_HANDLE_SYNC:
      handle = NEURON_DMA_H2T_CTX_HANDLE_SYNC;
      break;
    default:
      return fail(-EINVAL, "device %u: there is no transfer handle %d", device_.index(),
                  static_cast<int32_t>(request.pwait_handle));
  }
  if (request.size > kAsyncPieces * kPiece)
    return fail(-EINVAL,
                "device %u: an asynchronous copy has at most %" PRIu64 " bytes, found %" PRIu64,
                device_.index(), kAsyncPieces * kPiece, static_cast<uint64_t>(request.size));
  int error = 0;
  const Pin source = pin(request.src_mem_handle, error);
  if (error) return error;
  const Pin destination = pin(request.dst_mem_handle, error);
  if (error) return error;
  CoreState& core = device_.core_state[(source->host ? *destination : *source).core];
  {
    const std::lock_guard lock(device_.mutex);
    const auto previous = static_cast<int32_t>(request.pwait_handle);
    if (previous > 0) {
      if (!core.in_flight[previous])
        return fail(-EINVAL, "device %u: no transfer with handle %d is in flight", device_.index(),
                    previous);
      core.in_flight[previous] = false;
    }
  }
  // The chip carries a copy out while the doorbell is rung, so it is complete already.
  error = copy(request.src_mem_handle, request.dst_mem_handle, request.size, request.src_offset,
               request.dst_offset);
  if (error) return error;
  const std::lock_guard lock(device_.mutex);
  if (handle) core.in_flight[handle] = true;
  *wait_handle = handle;
  return 0;
}

int Session::copy_async_wait(const neuron_ioctl_mem_copy_async_wait& request) {
  int error = 0;
  const Pin source = pin(request.src_mem_handle, error);
  if (error) return error;
  const Pin destination = pin(request.dst_mem_handle, error);
  if (error) return error;
  CoreState& core = device_.core_state[(source->host ? *destination : *source).core];
  const std::lock_guard lock(device_.mutex);
  if (request.pwait_handle < 1 || request.pwait_handle > 2 || !core.in_flight[request.pwait_handle])
    return fail(-EINVAL, "device %u: no transfer with handle %u is in flight", device_.index(),
                request.pwait_handle);
  core.in_flight[request.pwait_handle] = false;
  return 0;
}

int Session::buffer_copy(uint64_t handle, void* buffer, uint64_t size, uint64_t offset,
                         bool to_device) {
  int error = 0;
  const Pin chunk = pin(handle, error);
  if (error) return error;
  if ((error = check_range(*chunk, offset, size))) return error;
  if (size == 0) return 0;
  if ((error = check_buffer(buffer, size))) return error;
  if (chunk->host) {
    if (to_device)
      std::memcpy(chunk->data + offset, buffer, size);
    else
      std::memcpy(buffer, chunk->data + offset, size);
    return 0;
  }
  // The I/O address space reaches all memory of the process: no bounce buffer is needed.
  return to_device ? ring_of(*chunk).write(chunk->address + offset, buffer, size)
                   : ring_of(*chunk).read(buffer, chunk->address + offset, size);
}

int Session::check_host_queue(uint32_t core, int32_t queue) const {
  const int32_t own = static_cast<int32_t>(device_.ring(core).queue());
  if (queue == NEURON_DMA_H2T_DEFAULT_QID || queue == own) return 0;
  return fail(-ENOENT, "device %u core %u: host copies go through queue %d, found %d",
              device_.index(), core, own, queue);
}

int Session::zero_copy(const neuron_ioctl_mem_buf_copy64zc& request) {
  int error = 0;
  {
    const Pin chunk = pin(request.mem_handle, error);
    if (error) return error;
    if ((error = check_host_queue(chunk->core, request.h2t_qid))) return error;
  }
  return buffer_copy(request.mem_handle, request.buffer, request.size, request.offset,
                     request.is_copy_to_device != 0);
}

int Session::zero_copy_batches(const neuron_ioctl_mem_buf_copy64zc_batches& request) {
  const unsigned index = device_.index();
  if (request.num_batches == 0)
    return fail(-EINVAL, "device %u: a batched copy has at least one batch", index);
  if (int error = check_buffer(request.batches_ptr,
                               uint64_t{request.num_batches} * sizeof(neuron_memcpy_batch_t)))
    return error;
  for (uint32_t i = 0; i < request.num_batches; i++) {
    const neuron_memcpy_batch_t& batch = request.batches_ptr[i];
    if (batch.num_ops == 0) return fail(-EINVAL, "device %u: batch %u has no transfer", index, i);
    if (int error =
            check_buffer(batch.ops_ptr, uint64_t{batch.num_ops} * sizeof(nrt_tensor_batch_op_t)))
      return error;
    int error = 0;
    const Pin chunk = pin(batch.mem_handle, error);
    if (error) return error;
    if ((error = check_host_queue(chunk->core, request.h2t_qid))) return error;
    for (uint32_t k = 0; k < batch.num_ops; k++) {
      const nrt_tensor_batch_op_t& op = batch.ops_ptr[k];
      const uint64_t offset = batch.mem_handle_offset + op.offset;
      if (op.size == 0 || offset < op.offset)
        return fail(-EINVAL,
                    "device %u: transfer %u of batch %u has size %" PRIu64 " at offset %" PRIu64,
                    index, k, i, op.size, op.offset);
      error =
          buffer_copy(batch.mem_handle, op.buffer, op.size, offset, request.is_copy_to_device != 0);
      if (error) return error;
    }
  }
  return 0;
}

int Session::fill(uint64_t handle, uint64_t offset, uint32_t value, uint64_t size) {
  int error = 0;
  const Pin chunk = pin(handle, error);
  if (error) return error;
  if ((error = check_range(*chunk, offset, size))) return error;
  for (uint64_t done = 0; done < size; done += kStride) {
    if (abandoned()) return give_up("a fill");
    if ((error = ring_of(*chunk).fill(chunk->address + offset + done, static_cast<uint8_t>(value),
                                      std::min(size - done, kStride))))
      return error;
  }
  return 0;
}

int Session::program_engine(uint32_t core, uint64_t destination, const void* buffer, uint64_t size,
                            uint64_t offset) {
  if (int error = check_core(core)) return error;
  // The offset counts on both sides.
  const uint64_t to = destination + offset;
  if (to < destination || size == 0 || !nd_chip_is_programmable(&device_.layout(), to, size))
    return fail(-ENOMEM,
                "device %u core %u: %" PRIu64 " bytes at 0x%" PRIx64
                " are not inside a core or CC core window",
                device_.index(), core, size, to);
  const uint64_t from = reinterpret_cast<uint64_t>(buffer) + offset;
  if (!buffer || from < offset) return check_buffer(nullptr, size);
  if (int error = check_buffer(reinterpret_cast<const void*>(from), size)) return error;
  return device_.ring(core).write(to, reinterpret_cast<const void*>(from), size);
}

}  // namespace neuron::service
