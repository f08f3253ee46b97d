/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Arguments of the DMA engine and queue calls of /dev/neuronN (numbers and rules: neuron_ioctl.h).
 *
 * An engine has 16 queues; a queue reads from the buffers of its tx ring and writes to those of its
 * rx ring. Rings are memory handles holding 16-byte descriptors (hw/udma.h). Counts are
 * descriptors.
 */
#ifndef NEURON_UAPI_IOCTL_DMA_H
#define NEURON_UAPI_IOCTL_DMA_H

#include "uapi/neuron_abi.h"
#include "uapi/neuron_shared.h"

/* No effect in current drivers. */
struct neuron_ioctl_dma_eng_init {
  __u32 eng_id;
};

/* state: 0 disable, 2 normal, 3 abort; other values are logged and ignored. */
struct neuron_ioctl_dma_eng_set_state {
  __u32 eng_id;
  __u32 state;
};

/* Reads the registers of an engine. */
struct neuron_ioctl_dma_eng_get_state {
  __u32 eng_id;
  struct neuron_dma_eng_state *state; /* out */
};

/*
 * Points a queue at its rings. Ring bases are 256-byte aligned; counts are multiples of 16, at
 * least 32 and at most 2^24 - 16. Handle 0 means no ring.
 */
struct neuron_ioctl_dma_queue_init {
  __u32 eng_id;
  __u32 qid;
  __u32 tx_desc_count;
  __u32 rx_desc_count;
  __u64 tx_handle;
  __u64 rx_handle;
  __u64 rxc_handle; /* 0: completion rings are not supported */
  __u32 axi_port;   /* 0 except on Inf1 */
};

/* Up to 255 of them; the first failure stops, earlier entries stay. */
struct neuron_ioctl_dma_queue_init_batch {
  __u32 count;
  struct neuron_ioctl_dma_queue_init entries[256];
};

/* No effect in current drivers. */
struct neuron_ioctl_dma_queue_release {
  __u32 eng_id;
  __u32 qid;
};

/* Of a call that no longer exists; the number answers ENOTTY. */
struct neuron_ioctl_dma_quiesce_queues {
  __u32 nc_id;
  __u32 engine_count;
  __u32 queue_mask[64];
};

/* Moves the software completion index of both rings. */
struct neuron_ioctl_dma_ack_completed {
  __u32 eng_id;
  __u32 qid;
  __u32 count;
};

/* Rings the doorbells, rx first, for descriptors that are already in ring memory. */
struct neuron_ioctl_dma_queue_copy_start {
  __u32 eng_id;
  __u32 qid;
  __u32 tx_desc_count;
  __u32 rx_desc_count;
};

/* Reads the registers of both rings of a queue. */
struct neuron_ioctl_dma_queue_get_state {
  __u32 eng_id;
  __u32 qid;
  struct neuron_dma_queue_state *tx; /* out */
  struct neuron_dma_queue_state *rx; /* out */
};

/* Copies descriptors into ring memory after checking every host address in them. */
struct neuron_ioctl_dma_copy_descriptors {
  __u64 mem_handle;
  void *buffer;
  __u32 num_descs;
  __u32 offset;
  enum neuron_dma_queue_type queue_type;
};

/* 64-bit offset. */
struct neuron_ioctl_dma_copy_descriptors64 {
  __u64 mem_handle;
  void *buffer;
  __u32 num_descs;
  __u64 offset; /* bytes into the ring */
  enum neuron_dma_queue_type queue_type;
};

/* Reads descriptors back from a ring. */
struct neuron_ioctl_dma_descriptor_copyout {
  __u32 eng_id;
  __u32 qid;
  enum neuron_dma_queue_type type;
  __u32 start_index;
  __u32 count;
  void *buffer; /* out, count * 16 bytes */
};

/* Reserves further host-to-device queues of a core. Fewer than 16 in all; all or nothing. */
struct neuron_ioctl_h2t_dma_alloc_queues {
  __u16 sz; /* sizeof this struct */
  __u16 nc_id;
  __u16 copy_queue_cnt;     /* queues with a ring of the driver */
  __u16 service_queue_cnt;  /* queues only reserved */
  __u32 copy_queue_bmap;    /* out: bit per queue id */
  __u32 service_queue_bmap; /* out */
  __u32 copy_default_queue; /* out */
};

/* Gives them back; the default queue is ignored. */
struct neuron_ioctl_h2t_dma_free_queues {
  __u16 sz; /* sizeof this struct */
  __u8 nc_id;
  __u8 fill0;
  __u32 queue_bmap;
};

#endif /* NEURON_UAPI_IOCTL_DMA_H */
