/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Arguments of the memory calls of /dev/neuronN (numbers and rules: neuron_ioctl.h).
 *
 * Memory is named by handle: a small integer per device, never 0. Handles have no owner: any
 * process with a full descriptor of the device may use any live one. Memory belongs to the process
 * that allocated it and is freed when its last descriptor closes. Sizes and offsets are bytes.
 * Forms with a 64 suffix replaced 32-bit ones; both stay.
 */
#ifndef NEURON_UAPI_IOCTL_MEMORY_H
#define NEURON_UAPI_IOCTL_MEMORY_H

#include "uapi/neuron_abi.h"
#include "uapi/neuron_shared.h"

/* First form of allocation. host_memory selects host memory (1) or HBM dram_channel (0). */
struct neuron_ioctl_mem_alloc {
  __u64 size;
  __u32 host_memory;
  __u32 dram_channel;
  __u32 dram_region; /* 0 on current chips */
  __u32 nc_id;       /* core whose queue copies use */
  __u64 *mem_handle; /* out */
};

/* With alignment: a power of two, 0 for host memory, at most INT_MAX. */
struct neuron_ioctl_mem_alloc_v2 {
  __u64 size;
  __u64 align;
  __u32 host_memory;
  __u32 dram_channel;
  __u32 dram_region;
  __u32 nc_id;
  __u64 *mem_handle; /* out */
};

/* With an accounting category. */
struct neuron_ioctl_mem_alloc_v2_mem_type {
  __u64 size;
  __u64 align;
  __u32 host_memory;
  __u32 dram_channel;
  __u32 dram_region;
  __u32 nc_id;
  __u32 mem_type;    /* mem_alloc_category_t */
  __u64 *mem_handle; /* out */
};

/* The same, from callers that handle 4 GiB and more. */
struct neuron_ioctl_mem_alloc_v2_mem_type64 {
  __u64 size;
  __u64 align;
  __u32 host_memory;
  __u32 dram_channel;
  __u32 dram_region;
  __u32 nc_id;
  __u32 mem_type;    /* mem_alloc_category_t */
  __u64 *mem_handle; /* out */
  __u32 pad;         /* 0 */
};

/* Drops one reference; the memory goes with the last one. Existing mappings are not revoked. */
struct neuron_ioctl_mem_free {
  __u64 mem_handle;
};

/* Deprecated: physical address and mmap offset through pointers. */
struct neuron_ioctl_mem_get_info {
  __u64 mem_handle;
  __u64 *mmap_offset;
  __u64 *pa;
};

/* Deprecated: physical address through a pointer. */
struct neuron_ioctl_mem_get_pa {
  __u64 mem_handle;
  __u64 *pa;
};

/*
 * All about a handle. In: mem_handle, version. On return mem_handle is meaningless. The public
 * driver answers a bad handle with the positive value 22.
 */
struct neuron_ioctl_mem_get_extended_info {
  __u64 mem_handle;
  __u32 version;     /* ignored */
  __u32 host_memory; /* 1: host memory */
  __u64 mmap_offset; /* for mmap() */
  __u64 pa;
  __u64 pid; /* allocating process */
  __u64 size;
};

/* Which allocation, of any process, contains physical address pa. */
struct neuron_ioctl_mem_get_mc_mmap_info {
  __u64 pa;
  __u64 mmap_offset; /* out */
  __u64 size;        /* out */
};

/* The same with a handle for it. */
struct neuron_ioctl_mem_get_mc_mmap_info_v2 {
  __u64 pa;
  __u64 mmap_offset; /* out */
  __u64 size;        /* out */
  __u64 mem_handle;  /* out */
};

/* Synchronous copy between two handles by DMA. */
struct neuron_ioctl_mem_copy {
  __u64 src_mem_handle;
  __u64 dst_mem_handle;
  __u32 size;
  __u32 src_offset;
  __u32 dst_offset;
};

/* Synchronous copy between two handles by DMA, 64-bit. */
struct neuron_ioctl_mem_copy64 {
  __u64 src_mem_handle;
  __u64 dst_mem_handle;
  __u64 size;
  __u64 src_offset;
  __u64 dst_offset;
};

/* Starts a copy and, if asked, waits for an earlier one. Two may be in flight per ring. */
struct neuron_ioctl_mem_copy_async {
  __u64 src_mem_handle;
  __u64 dst_mem_handle;
  __u32 size;
  __u32 src_offset;
  __u32 dst_offset;
  __u64 host_prefetch_addr; /* user buffer to fault in meanwhile, or 0 */
  __u32 pwait_handle;       /* earlier transfer to wait for, -1 none */
  __u32 wait_handle;        /* out: this transfer */
};

/* 64-bit form of neuron_ioctl_mem_copy_async; at most 2032 pieces of 64 KiB. */
struct neuron_ioctl_mem_copy_async64 {
  __u64 src_mem_handle;
  __u64 dst_mem_handle;
  __u64 size;
  __u64 src_offset;
  __u64 dst_offset;
  __u64 host_prefetch_addr; /* user buffer to fault in meanwhile, or 0 */
  __u32 pwait_handle;       /* earlier transfer to wait for, -1 none */
  __u32 wait_handle;        /* out: this transfer */
};

/* Waits for a transfer on the ring that the two handles select. */
struct neuron_ioctl_mem_copy_async_wait {
  __u64 src_mem_handle;
  __u64 dst_mem_handle;
  __u32 pwait_handle; /* enum neuron_dma_h2t_ctx_handle_type */
};

/* Fills a range with one byte. */
struct neuron_ioctl_memset {
  __u64 mem_handle;
  __u64 offset;
  __u32 value; /* low 8 bits count */
  __u32 size;
};

/* 64-bit form. */
struct neuron_ioctl_memset64 {
  __u64 mem_handle;
  __u64 offset;
  __u32 value; /* low 8 bits count */
  __u64 size;
};

/* Copies between a user buffer and a handle through a bounce buffer. */
struct neuron_ioctl_mem_buf_copy {
  __u64 mem_handle;
  void *buffer;
  __u32 size;
  __u32 offset;
  __u32 copy_to_mem_handle; /* 1: buffer to device, 0: device to buffer */
};

/*
 * 64-bit form; keep size below 4 GiB, older drivers use only its low half.
 * NEURON_IOCTL_MEM_BUF_ZEROCOPY64 of driver 2.24 took this struct as well.
 */
struct neuron_ioctl_mem_buf_copy64 {
  __u64 mem_handle;
  void *buffer;
  __u64 size;
  __u64 offset;
  __u32 copy_to_mem_handle; /* 1: buffer to device, 0: device to buffer */
};

/* Copies between a user buffer and a handle; DMA works on the pages of the buffer. */
struct neuron_ioctl_mem_buf_copy64zc {
  __u64 mem_handle;
  void *buffer;
  __u64 size;
  __u64 offset;
  __u32 is_copy_to_device; /* 1: buffer to device */
  __u32 bar4_wr_threshold; /* small writes up to this size may go through BAR4 */
  __s32 h2t_qid;           /* host-to-device queue, NEURON_DMA_H2T_DEFAULT_QID for the default */
  __u32 dummy;             /* 0 */
};

/* Many zero-copy transfers, in order. On an error earlier batches stay done. */
struct neuron_ioctl_mem_buf_copy64zc_batches {
  __u64 sequence_num;                 /* unused */
  neuron_memcpy_batch_t *batches_ptr; /* num_batches of them */
  __u32 num_batches;
  __u16 is_copy_to_device;
  __s32 h2t_qid; /* as in neuron_ioctl_mem_buf_copy64zc */
  __u16 flags;   /* 0 */
};

/* Copies buffer + offset to chip address dst + offset: the offset applies to both. */
struct neuron_ioctl_program_engine {
  __u64 dst;
  void *buffer;
  __u32 size;
  __u32 offset;
};

/* The same through the queue of core nc_id. */
struct neuron_ioctl_program_engine_nc {
  __u32 nc_id;
  __u64 dst;
  void *buffer;
  __u32 size;
  __u32 offset;
};

/* 64-bit form. */
struct neuron_ioctl_program_engine_nc64 {
  __u32 nc_id;
  __u64 dst;
  void *buffer;
  __u64 size;
  __u64 offset;
};

/* Live allocations of one HBM. EAGAIN with num_entries_out set when the room is too small. */
struct neuron_ioctl_dump_mem_chunks {
  __u32 hbm_index;
  __u32 num_entries_in;                     /* room in data */
  __u32 num_entries_out;                    /* out */
  struct neuron_ioctl_mem_chunk_info *data; /* out */
};

/* Starts filling an HBM, less what the firmware keeps, with a pattern. */
struct neuron_ioctl_hbm_scrub_start {
  __u32 nc_id;
  __u32 hbm_index;
  __u32 axi_port;
  __u32 init_val; /* 32-bit pattern */
};

/* Waits for a scrub. */
struct neuron_ioctl_hbm_scrub_wait {
  __u32 nc_id;
  __u32 hbm_index;
};

/* Exports [va, va + size), which the caller has mapped from a device, as a dma-buf. */
struct neuron_ioctl_dmabuf_fd {
  __u64 va;
  __u64 size;
  __s32 *fd; /* out */
};

/* mmap offset and size of a named part of the chip. */
struct neuron_ioctl_resource_mmap_info {
  __u32 block;    /* enum neuron_dm_block_type */
  __u32 block_id; /* which of them */
  __u32 resource; /* enum neuron_dm_resource_type */
  __u64 offset;   /* out */
  __u64 size;     /* out */
};

#endif /* NEURON_UAPI_IOCTL_MEMORY_H */
