// SPDX-License-Identifier: Apache-2.0
// DMA engines and queues. Rules for all functions: ndl.h.
//
// An engine has 16 queues. The rings of a queue are allocations that hold 16-byte descriptors;
// counts are in descriptors. The process that initialises a queue owns it; the driver points it
// away from the process's memory when that process ends.
#ifndef NDL_DMA_H
#define NDL_DMA_H

#include "ndl/ndl_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// State of an engine: 0 disabled, 2 normal, 3 abort.
int ndl_dma_eng_set_state(int device_index, uint32_t eng_id, uint32_t state);
int ndl_dma_eng_get_state(int device_index, uint32_t eng_id, struct neuron_dma_eng_state *state);

// Registers of both rings of a queue.
int ndl_dma_queue_get_state(int device_index, uint8_t eng_id, uint8_t qid,
                            struct neuron_dma_queue_state *tx, struct neuron_dma_queue_state *rx);

// Reads `count` descriptors back from a ring, from start_index on; buffer has 16 bytes for each.
int ndl_dma_descriptor_copyout(int device_index, uint8_t eng_id, uint8_t qid,
                               enum neuron_dma_queue_type type, uint32_t start_index,
                               uint32_t count, void *buffer);

// Points a queue at its rings (mem_handles, 0 for none; rxc_handle must be 0). Counts: multiples of
// 16, from 32 to 2^24 - 16; ring memory is 256-byte aligned.
int ndl_dma_queue_init(int device_index, uint32_t eng_id, uint32_t qid, uint32_t tx_desc_count,
                       uint32_t rx_desc_count, uint64_t tx_handle, uint64_t rx_handle,
                       uint64_t rxc_handle, uint32_t axi_port);

// Initialises several queues; stops at the first failure and keeps the earlier ones. One call where
// the driver has NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT, else one call each.
int ndl_dma_queue_init_batch(int device_idx, struct ndl_queue_init_batch *batch);

// Gives a queue back. Current drivers do that when the process ends.
int ndl_dma_queue_release(int device_index, uint32_t eng_id, uint32_t qid);

// Rings the doorbells (write side first) for descriptors that are already in the rings.
int ndl_dma_queue_copy_start(int device_index, uint32_t eng_id, uint32_t qid,
                             uint32_t tx_desc_count, uint32_t rx_desc_count);

// Tells the driver that `count` descriptors were consumed; ring sizes must be powers of two.
int ndl_dma_ack_completed_desc(int device_index, uint32_t eng_id, uint32_t qid, uint32_t count);

// Copies num_descs descriptors from buffer into ring memory at byte `offset`. -EINVAL: a descriptor
// names host memory that no attached device allocated.
int ndl_dma_copy_descriptors(uint64_t mem_handle, void *buffer, uint64_t offset, uint32_t num_descs,
                             enum neuron_dma_queue_type queue_type);

// Reserves further host-to-device queues of a core: copy queues (with rings of the driver, usable
// as qid of zero-copy calls) and service queues (reserved only). Out: bit per queue id, and the
// default queue. All or nothing; fewer than 16 in total.
int ndl_h2t_dma_queue_alloc(ndl_device_t *device, uint32_t nc_id, uint32_t copy_queue_cnt,
                            uint32_t service_queue_cnt, uint32_t *copy_queue_bmap,
                            uint32_t *service_queue_bmap, uint32_t *copy_default_queue);
int ndl_h2t_dma_queue_free(ndl_device_t *device, uint32_t nc_id, uint32_t queue_bmap);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NDL_DMA_H
