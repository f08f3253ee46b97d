// SPDX-License-Identifier: Apache-2.0
// Calls that move bytes: copies between handles, buffers and on-chip memory, through the copy ring
// of a core.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/base/racing_copy.h"
#include "driver/core/descriptor.h"
#include "driver/emulator/service/calls.h"
#include "driver/emulator/service/error.h"

namespace neuron::service {
namespace {

// Of a copy within the host, between two looks whether its process still lives.
constexpr uint64_t kHostStride = 1 << 20;

int copy(Session& session, uint64_t from, uint64_t to, uint64_t size, uint64_t from_offset,
         uint64_t to_offset) {
  int error = 0;
  const Pin source = session.pin(from, error);
  if (error) return error;
  const Pin destination = session.pin(to, error);
  if (error) return error;
  if ((error = session.check_range(*source, from_offset, size))) return error;
  if ((error = session.check_range(*destination, to_offset, size))) return error;
  // The queue of the side in HBM; of the destination if both or none are.
  CopyRing& ring = session.ring_of(destination->host && !source->host ? *source : *destination);
  for (uint64_t done = 0; done < size; done += Session::kStride) {
    if (session.abandoned()) return session.give_up("a copy");
    if ((error = ring.copy(destination->address + to_offset + done,
                           source->address + from_offset + done,
                           std::min(size - done, Session::kStride)))) {
      return error;
    }
  }
  return 0;
}

// Of both widths.
template <typename Request>
int mem_copy(Session& session, Request& c) {
  return copy(session, c.src_mem_handle, c.dst_mem_handle, c.size, c.src_offset, c.dst_offset);
}

// The core whose ring carries an asynchronous copy: that of the side in HBM.
CoreState& core_of(Device& device, const Chunk& source, const Chunk& destination) {
  return device.core_state[(source.host ? destination : source).core];
}

// The chip carries a copy out while its doorbell is rung: a copy that was started is complete.
int copy_async(Session& session, const neuron_ioctl_mem_copy_async64& request, __u32* wait_handle) {
  Device& device = session.device();
  const auto previous = static_cast<int32_t>(request.pwait_handle);
  uint32_t name = 0;
  if (nd_async_next(previous, &name) != 0) {
    return fail(-EINVAL, "device %u: there is no transfer handle %d", device.index(), previous);
  }
  if (nd_async_check_size(request.size) != 0) {
    return fail(-EINVAL,
                "device %u: an asynchronous copy has at most %" PRIu64 " bytes, found %" PRIu64,
                device.index(), ND_ASYNC_BYTES, static_cast<uint64_t>(request.size));
  }
  int error = 0;
  const Pin source = session.pin(request.src_mem_handle, error);
  if (error) return error;
  const Pin destination = session.pin(request.dst_mem_handle, error);
  if (error) return error;
  nd_async_copies& copies = core_of(device, *source, *destination).copies;
  {
    const std::lock_guard lock(device.mutex);
    if (nd_async_check_started(&copies, previous) != 0) {
      return fail(-EINVAL, "device %u: no transfer with handle %d is in flight", device.index(),
                  previous);
    }
    if (previous > 0) nd_async_finish(&copies, static_cast<uint32_t>(previous));
  }
  error = copy(session, request.src_mem_handle, request.dst_mem_handle, request.size,
               request.src_offset, request.dst_offset);
  if (error) return error;
  const std::lock_guard lock(device.mutex);
  if (name != 0) nd_async_start(&copies, name, 0);
  *wait_handle = name;
  return 0;
}

int mem_copy_async(Session& session, neuron_ioctl_mem_copy_async& c) {
  const neuron_ioctl_mem_copy_async64 wide = {
      c.src_mem_handle, c.dst_mem_handle,     c.size,         c.src_offset,
      c.dst_offset,     c.host_prefetch_addr, c.pwait_handle, 0};
  return copy_async(session, wide, &c.wait_handle);
}

int mem_copy_async64(Session& session, neuron_ioctl_mem_copy_async64& c) {
  return copy_async(session, c, &c.wait_handle);
}

int mem_copy_async_wait(Session& session, neuron_ioctl_mem_copy_async_wait& request) {
  Device& device = session.device();
  int error = 0;
  const Pin source = session.pin(request.src_mem_handle, error);
  if (error) return error;
  const Pin destination = session.pin(request.dst_mem_handle, error);
  if (error) return error;
  const std::lock_guard lock(device.mutex);
  nd_async_copies& copies = core_of(device, *source, *destination).copies;
  if (nd_async_wait(&copies, request.pwait_handle) != 0) {
    return fail(-EINVAL, "device %u: no transfer with handle %u is in flight", device.index(),
                request.pwait_handle);
  }
  nd_async_finish(&copies, request.pwait_handle);
  return 0;
}

int buffer_copy(Session& session, uint64_t handle, void* buffer, uint64_t size, uint64_t offset,
                bool to_device) {
  int error = 0;
  const Pin chunk = session.pin(handle, error);
  if (error) return error;
  if ((error = session.check_range(*chunk, offset, size))) return error;
  if (size == 0) return 0;
  if ((error = session.check_buffer(buffer, size))) return error;
  if (chunk->host) {
    std::byte* const memory = chunk->data + offset;
    auto* const process = static_cast<std::byte*>(buffer);
    for (uint64_t done = 0; done < size; done += kHostStride) {
      if (session.abandoned()) return session.give_up("a copy");
      const uint64_t bytes = std::min(size - done, kHostStride);
      base::racing_copy(to_device ? memory + done : process + done,
                        to_device ? process + done : memory + done, bytes);
    }
    return 0;
  }
  // The I/O address space reaches all memory of the process: no bounce buffer is needed.
  return to_device ? session.ring_of(*chunk).write(chunk->address + offset, buffer, size)
                   : session.ring_of(*chunk).read(buffer, chunk->address + offset, size);
}

template <typename Request>
int mem_buf_copy(Session& session, Request& c) {
  return buffer_copy(session, c.mem_handle, c.buffer, c.size, c.offset, c.copy_to_mem_handle != 0);
}

int check_host_queue(Session& session, uint32_t core, int32_t queue) {
  Device& device = session.device();
  const int32_t own = static_cast<int32_t>(device.ring(core).queue());
  if (queue == NEURON_DMA_H2T_DEFAULT_QID || queue == own) return 0;
  return fail(-ENOENT, "device %u core %u: host copies go through queue %d, found %d",
              session.device_index(), core, own, queue);
}

int zero_copy(Session& session, neuron_ioctl_mem_buf_copy64zc& request) {
  int error = 0;
  {
    const Pin chunk = session.pin(request.mem_handle, error);
    if (error) return error;
    if ((error = check_host_queue(session, chunk->core, request.h2t_qid))) return error;
  }
  return buffer_copy(session, request.mem_handle, request.buffer, request.size, request.offset,
                     request.is_copy_to_device != 0);
}

int zero_copy_batches(Session& session, neuron_ioctl_mem_buf_copy64zc_batches& request) {
  const unsigned index = session.device_index();
  if (request.num_batches == 0) {
    return fail(-EINVAL, "device %u: a batched copy has at least one batch", index);
  }
  if (int error = session.check_buffer(
          request.batches_ptr, uint64_t{request.num_batches} * sizeof(neuron_memcpy_batch_t))) {
    return error;
  }
  for (uint32_t i = 0; i < request.num_batches; ++i) {
    const neuron_memcpy_batch_t& batch = request.batches_ptr[i];
    if (batch.num_ops == 0) return fail(-EINVAL, "device %u: batch %u has no transfer", index, i);
    if (int error = session.check_buffer(batch.ops_ptr,
                                         uint64_t{batch.num_ops} * sizeof(nrt_tensor_batch_op_t))) {
      return error;
    }
    int error = 0;
    const Pin chunk = session.pin(batch.mem_handle, error);
    if (error) return error;
    if ((error = check_host_queue(session, chunk->core, request.h2t_qid))) return error;
    for (uint32_t k = 0; k < batch.num_ops; ++k) {
      if (session.abandoned()) return session.give_up("a batch of copies");
      const nrt_tensor_batch_op_t& op = batch.ops_ptr[k];
      const uint64_t offset = batch.mem_handle_offset + op.offset;
      if (op.size == 0 || offset < op.offset) {
        return fail(-EINVAL,
                    "device %u: transfer %u of batch %u has size %" PRIu64 " at offset %" PRIu64,
                    index, k, i, op.size, op.offset);
      }
      error = buffer_copy(session, batch.mem_handle, op.buffer, op.size, offset,
                          request.is_copy_to_device != 0);
      if (error) return error;
    }
  }
  return 0;
}

int fill(Session& session, uint64_t handle, uint64_t offset, uint32_t value, uint64_t size) {
  int error = 0;
  const Pin chunk = session.pin(handle, error);
  if (error) return error;
  if ((error = session.check_range(*chunk, offset, size))) return error;
  for (uint64_t done = 0; done < size; done += Session::kStride) {
    if (session.abandoned()) return session.give_up("a fill");
    if ((error = session.ring_of(*chunk).fill(chunk->address + offset + done,
                                              static_cast<uint8_t>(value),
                                              std::min(size - done, Session::kStride)))) {
      return error;
    }
  }
  return 0;
}

template <typename Request>
int mem_set(Session& session, Request& m) {
  return fill(session, m.mem_handle, m.offset, m.value, m.size);
}

int program_engine(Session& session, uint32_t core, uint64_t destination, const void* buffer,
                   uint64_t size, uint64_t offset) {
  Device& device = session.device();
  // The offset counts on both sides.
  const uint64_t to = destination + offset;
  if (to < destination || size == 0 || !nd_chip_is_programmable(&device.layout(), to, size)) {
    return fail(-ENOMEM,
                "device %u core %u: %" PRIu64 " bytes at 0x%" PRIx64
                " are not inside a core or CC core window",
                session.device_index(), core, size, to);
  }
  const uint64_t from = reinterpret_cast<uint64_t>(buffer) + offset;
  if (!buffer || from < offset) return session.check_buffer(nullptr, size);
  if (int error = session.check_buffer(reinterpret_cast<const void*>(from), size)) return error;
  return device.ring(core).write(to, reinterpret_cast<const void*>(from), size);
}

int program_first_core(Session& session, neuron_ioctl_program_engine& p) {
  return program_engine(session, 0, p.dst, p.buffer, p.size, p.offset);
}

template <typename Request>
int program_core(Session& session, Request& p) {
  return program_engine(session, p.nc_id, p.dst, p.buffer, p.size, p.offset);
}

constexpr Call kCopyRows[] = {
    call<mem_copy<neuron_ioctl_mem_copy>>(NEURON_IOCTL_MEM_COPY),
    call<mem_copy<neuron_ioctl_mem_copy64>>(NEURON_IOCTL_MEM_COPY64),
    call<mem_buf_copy<neuron_ioctl_mem_buf_copy>>(NEURON_IOCTL_MEM_BUF_COPY),
    call<mem_buf_copy<neuron_ioctl_mem_buf_copy64>>(NEURON_IOCTL_MEM_BUF_COPY64),
    call<mem_buf_copy<neuron_ioctl_mem_buf_copy64>>(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24),
    call<zero_copy>(NEURON_IOCTL_MEM_BUF_ZEROCOPY64),
    call<zero_copy_batches>(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES),
    call<mem_set<neuron_ioctl_memset>>(NEURON_IOCTL_MEMSET),
    call<mem_set<neuron_ioctl_memset64>>(NEURON_IOCTL_MEMSET64),
    call<mem_copy_async>(NEURON_IOCTL_MEM_COPY_ASYNC),
    call<mem_copy_async64>(NEURON_IOCTL_MEM_COPY_ASYNC64),
    call<mem_copy_async_wait>(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT),
    call<program_first_core>(NEURON_IOCTL_PROGRAM_ENGINE),
    call<program_core<neuron_ioctl_program_engine_nc>, names_a_core>(
        NEURON_IOCTL_PROGRAM_ENGINE_NC),
    call<program_core<neuron_ioctl_program_engine_nc64>, names_a_core>(
        NEURON_IOCTL_PROGRAM_ENGINE_NC64),
};

}  // namespace

constinit const std::span<const Call> kCopyCalls = kCopyRows;

}  // namespace neuron::service
