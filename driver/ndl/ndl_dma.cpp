// SPDX-License-Identifier: Apache-2.0
// DMA engines and queues.
#include "ndl/ndl_dma.h"

#include <cerrno>
#include <memory>

#include "driver/ndl/device_table.h"
#include "driver/ndl/guard.h"
#include "driver/ndl/handle_table.h"
#include "uapi/neuron_ioctl.h"

using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::fail;
using neuron::ndl::find_allocation;
using neuron::ndl::guarded;
using neuron::ndl::HeldAllocation;

namespace {

constexpr uint32_t kDescriptorBytes = 16;

// A ring of a queue with the driver's own handle; `held` keeps it alive. Handle 0 means no ring.
struct Ring {
  HeldAllocation held;
  uint64_t driver_handle = 0;

  int find(uint64_t handle, uint32_t descriptors, const DevicePointer& open, const char* name) {
    if (handle == 0) return 0;
    held = find_allocation(handle, name);
    if (!held) return -EINVAL;
    if (held.device != open) {
      return fail(-EXDEV, "%s of a queue of device %d is on device %d", name, open->index(),
                  held.device->index());
    }
    driver_handle = held.driver_handle();
    return held.check_range(0, static_cast<uint64_t>(descriptors) * kDescriptorBytes, name);
  }
};

// A request for one queue; it keeps the rings alive until the driver has them.
struct QueueRequest {
  Ring tx, rx, completion;
  neuron_ioctl_dma_queue_init request = {};

  int fill(const DevicePointer& open, const ndl_queue_init& queue) {
    int result = tx.find(queue.tx_handle, queue.tx_desc_count, open, "the tx ring");
    if (result == 0) result = rx.find(queue.rx_handle, queue.rx_desc_count, open, "the rx ring");
    if (result == 0) result = completion.find(queue.rxc_handle, 0, open, "the completion ring");
    if (result != 0) return result;
    request.eng_id = queue.eng_id;
    request.qid = queue.qid;
    request.tx_desc_count = queue.tx_desc_count;
    request.rx_desc_count = queue.rx_desc_count;
    request.tx_handle = tx.driver_handle;
    request.rx_handle = rx.driver_handle;
    request.rxc_handle = completion.driver_handle;
    request.axi_port = queue.axi_port;
    return 0;
  }
};

int init_queue(const DevicePointer& open, const ndl_queue_init& queue) {
  QueueRequest queue_request;
  if (const int result = queue_request.fill(open, queue); result != 0) return result;
  return open->call(NEURON_IOCTL_DMA_QUEUE_INIT, &queue_request.request,
                    "initialising a DMA queue");
}

}  // namespace

int ndl_dma_eng_set_state(int device_index, uint32_t eng_id, uint32_t state) {
  return guarded("ndl_dma_eng_set_state", [&] {
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_eng_set_state request = {};
    request.eng_id = eng_id;
    request.state = state;
    return open->call(NEURON_IOCTL_DMA_ENG_SET_STATE, &request,
                      "setting the state of a DMA engine");
  });
}

int ndl_dma_eng_get_state(int device_index, uint32_t eng_id, struct neuron_dma_eng_state* state) {
  return guarded("ndl_dma_eng_get_state", [&] {
    if (state == nullptr) return fail(-EINVAL, "ndl_dma_eng_get_state: state is null");
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_eng_get_state request = {};
    request.eng_id = eng_id;
    request.state = state;
    return open->call(NEURON_IOCTL_DMA_ENG_GET_STATE, &request,
                      "reading the state of a DMA engine");
  });
}

int ndl_dma_queue_get_state(int device_index, uint8_t eng_id, uint8_t qid,
                            struct neuron_dma_queue_state* tx, struct neuron_dma_queue_state* rx) {
  return guarded("ndl_dma_queue_get_state", [&] {
    if (tx == nullptr || rx == nullptr) {
      return fail(-EINVAL, "ndl_dma_queue_get_state: tx or rx is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_queue_get_state request = {};
    request.eng_id = eng_id;
    request.qid = qid;
    request.tx = tx;
    request.rx = rx;
    return open->call(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &request,
                      "reading the state of a DMA queue");
  });
}

int ndl_dma_descriptor_copyout(int device_index, uint8_t eng_id, uint8_t qid,
                               enum neuron_dma_queue_type type, uint32_t start_index,
                               uint32_t count, void* buffer) {
  return guarded("ndl_dma_descriptor_copyout", [&] {
    if (buffer == nullptr) return fail(-EINVAL, "ndl_dma_descriptor_copyout: buffer is null");
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_descriptor_copyout request = {};
    request.eng_id = eng_id;
    request.qid = qid;
    request.type = type;
    request.start_index = start_index;
    request.count = count;
    request.buffer = buffer;
    return open->call(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &request, "reading descriptors back");
  });
}

int ndl_dma_queue_init(int device_index, uint32_t eng_id, uint32_t qid, uint32_t tx_desc_count,
                       uint32_t rx_desc_count, uint64_t tx_handle, uint64_t rx_handle,
                       uint64_t rxc_handle, uint32_t axi_port) {
  return guarded("ndl_dma_queue_init", [&] {
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    return init_queue(open, {eng_id, qid, tx_desc_count, rx_desc_count, tx_handle, rx_handle,
                             rxc_handle, axi_port});
  });
}

int ndl_dma_queue_init_batch(int device_idx, struct ndl_queue_init_batch* batch) {
  return guarded("ndl_dma_queue_init_batch", [&] {
    if (batch == nullptr) return fail(-EINVAL, "ndl_dma_queue_init_batch: batch is null");
    if (batch->count >= MAX_NDL_QUEUE_INIT_BATCH) {
      return fail(-E2BIG, "ndl_dma_queue_init_batch: %u queues; at most %u are possible",
                  batch->count, MAX_NDL_QUEUE_INIT_BATCH - 1);
    }
    const DevicePointer open = DeviceTable::instance().find(device_idx);
    if (open == nullptr) return -ENODEV;
    if (!open->has(NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT)) {
      for (uint32_t i = 0; i < batch->count; ++i) {
        if (const int result = init_queue(open, batch->entries[i]); result != 0) return result;
      }
      return 0;
    }
    const auto queues = std::make_unique<QueueRequest[]>(batch->count);
    const auto request = std::make_unique<neuron_ioctl_dma_queue_init_batch>();
    request->count = batch->count;
    for (uint32_t i = 0; i < batch->count; ++i) {
      if (const int result = queues[i].fill(open, batch->entries[i]); result != 0) return result;
      request->entries[i] = queues[i].request;
    }
    return open->call(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, request.get(), "initialising DMA queues");
  });
}

int ndl_dma_queue_release(int device_index, uint32_t eng_id, uint32_t qid) {
  return guarded("ndl_dma_queue_release", [&] {
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_queue_release request = {};
    request.eng_id = eng_id;
    request.qid = qid;
    return open->call(NEURON_IOCTL_DMA_QUEUE_RELEASE, &request, "releasing a DMA queue");
  });
}

int ndl_dma_queue_copy_start(int device_index, uint32_t eng_id, uint32_t qid,
                             uint32_t tx_desc_count, uint32_t rx_desc_count) {
  return guarded("ndl_dma_queue_copy_start", [&] {
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_queue_copy_start request = {};
    request.eng_id = eng_id;
    request.qid = qid;
    request.tx_desc_count = tx_desc_count;
    request.rx_desc_count = rx_desc_count;
    return open->call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &request, "starting a DMA queue");
  });
}

int ndl_dma_ack_completed_desc(int device_index, uint32_t eng_id, uint32_t qid, uint32_t count) {
  return guarded("ndl_dma_ack_completed_desc", [&] {
    const DevicePointer open = DeviceTable::instance().find(device_index);
    if (open == nullptr) return -ENODEV;
    neuron_ioctl_dma_ack_completed request = {};
    request.eng_id = eng_id;
    request.qid = qid;
    request.count = count;
    return open->call(NEURON_IOCTL_DMA_ACK_COMPLETED, &request, "acknowledging descriptors");
  });
}

int ndl_dma_copy_descriptors(uint64_t mem_handle, void* buffer, uint64_t offset, uint32_t num_descs,
                             enum neuron_dma_queue_type queue_type) {
  return guarded("ndl_dma_copy_descriptors", [&] {
    const HeldAllocation held = find_allocation(mem_handle, "ndl_dma_copy_descriptors");
    if (!held) return -EINVAL;
    if (buffer == nullptr) return fail(-EINVAL, "ndl_dma_copy_descriptors: buffer is null");
    const uint64_t bytes = static_cast<uint64_t>(num_descs) * kDescriptorBytes;
    if (const int result = held.check_range(offset, bytes, "a copy of descriptors"); result != 0) {
      return result;
    }
    neuron_ioctl_dma_copy_descriptors64 request = {};
    request.mem_handle = held.driver_handle();
    request.buffer = buffer;
    request.num_descs = num_descs;
    request.offset = offset;
    request.queue_type = queue_type;
    return held.device->call(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &request, "copying descriptors");
  });
}

int ndl_h2t_dma_queue_alloc(ndl_device_t* device, uint32_t nc_id, uint32_t copy_queue_cnt,
                            uint32_t service_queue_cnt, uint32_t* copy_queue_bmap,
                            uint32_t* service_queue_bmap, uint32_t* copy_default_queue) {
  return guarded("ndl_h2t_dma_queue_alloc", [&] {
    if (copy_queue_bmap == nullptr || service_queue_bmap == nullptr ||
        copy_default_queue == nullptr) {
      return fail(-EINVAL, "ndl_h2t_dma_queue_alloc: an output pointer is null");
    }
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    // These fields of the driver have 16 bits.
    if (nc_id > UINT16_MAX || copy_queue_cnt > UINT16_MAX || service_queue_cnt > UINT16_MAX) {
      return fail(-E2BIG, "device %d: %u + %u queues for core %u are more than a core can have",
                  open->index(), copy_queue_cnt, service_queue_cnt, nc_id);
    }
    neuron_ioctl_h2t_dma_alloc_queues request = {};
    request.sz = sizeof(request);
    request.nc_id = static_cast<__u16>(nc_id);
    request.copy_queue_cnt = static_cast<__u16>(copy_queue_cnt);
    request.service_queue_cnt = static_cast<__u16>(service_queue_cnt);
    const int result =
        open->call(NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES, &request, "reserving host queues");
    if (result != 0) return result;
    *copy_queue_bmap = request.copy_queue_bmap;
    *service_queue_bmap = request.service_queue_bmap;
    *copy_default_queue = request.copy_default_queue;
    return 0;
  });
}

int ndl_h2t_dma_queue_free(ndl_device_t* device, uint32_t nc_id, uint32_t queue_bmap) {
  return guarded("ndl_h2t_dma_queue_free", [&] {
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    if (nc_id > UINT8_MAX) return fail(-E2BIG, "device %d has no core %u", open->index(), nc_id);
    neuron_ioctl_h2t_dma_free_queues request = {};
    request.sz = sizeof(request);
    request.nc_id = static_cast<__u8>(nc_id);
    request.queue_bmap = queue_bmap;
    return open->call(NEURON_IOCTL_H2T_DMA_FREE_QUEUES, &request, "giving host queues back");
  });
}
