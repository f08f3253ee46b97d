// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/memory_usage.h"

#include <cerrno>
#include <vector>

#include "runtime/device/driver_error.h"

namespace neuron::runtime {

Result<MemoryUsage> read_memory_usage(Device& device, uint32_t hbm) {
  std::vector<neuron_ioctl_mem_chunk_info> chunks;
  int result = -EAGAIN;
  // Other processes may allocate between the call that counts and the call that lists.
  for (int attempt = 0; attempt < 8 && result == -EAGAIN; ++attempt) {
    auto count = static_cast<uint32_t>(chunks.size());
    result = ndl_dump_device_allocation_info(device.ndl(), hbm, chunks.data(), &count);
    if (result == -EAGAIN) {
      chunks.resize(count + 64);
    } else {
      chunks.resize(count);
    }
  }
  if (result != 0) {
    return driver_error(NRT_FAILURE, result, "listing the allocations in HBM {} of device {}", hbm,
                        device.index());
  }
  MemoryUsage usage;
  for (const neuron_ioctl_mem_chunk_info& chunk : chunks) {
    usage.total += chunk.size;
    if (chunk.mem_type >= NEURON_MEMALLOC_TYPE_MAX) continue;
    usage.categories[chunk.mem_type].bytes += chunk.size;
    ++usage.categories[chunk.mem_type].allocations;
  }
  return usage;
}

const char* memory_category_name(uint32_t category) {
  switch (category) {
    case NEURON_MEMALLOC_TYPE_CODE_DEVICE:
      return "model_code";
    case NEURON_MEMALLOC_TYPE_TENSORS_DEVICE:
      return "tensors";
    case NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE:
      return "constants";
    case NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE:
    case NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE:
      return "model_shared_scratchpad";
    case NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE:
      return "nonshared_scratchpad";
    case NEURON_MEMALLOC_TYPE_MISC_DEVICE:
      return "runtime_memory";
    case NEURON_MEMALLOC_TYPE_NCDEV_DEVICE:
      return "driver_memory";
    case NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE:
      return "collectives";
    case NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE:
      return "notifications";
    case NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE:
      return "dma_rings";
    default:
      return "uncategorized";
  }
}

}  // namespace neuron::runtime
