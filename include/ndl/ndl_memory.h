// SPDX-License-Identifier: Apache-2.0
// Memory of a device: allocation, mapping, copies. Rules for all functions: ndl.h.
//
// A mem_handle is a number of this library, valid in this process until ndl_memory_free or until
// its device is closed; a stale one is recognised. Copies are complete when the call returns,
// unless the name says otherwise. A range outside the allocation gives -EINVAL before anything is
// copied.
#ifndef NDL_MEMORY_H
#define NDL_MEMORY_H

#include "ndl/ndl_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Allocates device memory (host_memory 0, HBM number dram_channel) or host memory that the device
// can reach (host_memory 1). align: power of two, 0 for the default and for host memory. nc_id: the
// core whose queues copy it. mem_alloc_type: mem_alloc_category_t. Contents are undefined.
// -ENOMEM: no free block of that size.
int ndl_memory_alloc(ndl_device_t *device, size_t size, uint64_t align, uint32_t host_memory,
                     uint32_t dram_channel, uint32_t dram_region, uint32_t nc_id,
                     uint32_t mem_alloc_type, uint64_t *mem_handle);

// Frees, after removing a mapping that ndl_memory_map made.
int ndl_memory_free(uint64_t mem_handle);

// Address by which the device reaches the memory.
int ndl_memory_get_pa(uint64_t mem_handle, uint64_t *pa);

// Maps the whole allocation into this process; a second call returns the same address.
int ndl_memory_map(uint64_t mem_handle, void **va);
int ndl_memory_unmap(uint64_t mem_handle);

// Copies between host memory of the caller and an allocation through the driver's bounce buffer.
int ndl_memory_buf_copyin(uint64_t mem_handle, void *buffer, uint64_t offset, size_t size);
int ndl_memory_buf_copyout(uint64_t mem_handle, void *buffer, uint64_t offset, size_t size);

// The same, with DMA working on the caller's pages; falls back to the bounce buffer where the
// driver cannot do it. qid: a queue of ndl_h2t_dma_queue_alloc, or NEURON_DMA_H2T_DEFAULT_QID.
// Writes of up to bar4_wr_threshold bytes may be done by the CPU.
int ndl_memory_buf_zerocopyin(uint64_t mem_handle, void *buffer, uint64_t offset, size_t size,
                              int qid, uint32_t bar4_wr_threshold);
int ndl_memory_buf_zerocopyout(uint64_t mem_handle, void *buffer, uint64_t offset, size_t size,
                               int qid);

// Many transfers. direction 1: to the device, 0: from it. mem_handle in each batch is a handle of
// this library. All handles of a call belong to one device. Batches before a failing one stay done.
int ndl_memory_buf_batch_copy(neuron_memcpy_batch_t *batches, uint64_t num_batches,
                              uint32_t direction, int qid);

// Copies to an address of the chip (instruction memory, tables): buffer + offset to dst + offset.
// -ENOMEM: dst is not in the driver's list of allowed windows.
int ndl_program_engine(ndl_device_t *device, uint32_t nc_id, uint64_t dst, void *buffer,
                       uint64_t offset, size_t size);

// Fills with the low byte of value. addr is a mem_handle.
int ndl_memset(const uint64_t addr, uint64_t offset, const int value, const size_t size);

// Copies between two allocations of one device.
int ndl_memory_copy(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                    uint64_t dst_offset, size_t size);

// Starts a copy. *wait_handle in: the earlier copy to wait for, NEURON_DMA_H2T_CTX_HANDLE_NONE for
// none; out: this copy. At most two per core are in flight, at most 127 MiB each. prefetch_addr:
// host memory to make resident meanwhile, or 0.
int ndl_memory_copy_as(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                       uint64_t dst_offset, size_t size, uint64_t prefetch_addr, int *wait_handle);

// Waits for a copy; mem_handle is its device side. The driver bounds the wait.
int ndl_memory_copy_as_wait(uint64_t mem_handle, int wait_handle);

// Address and size at which HBM hbm_idx is mapped whole. -EINVAL: no such HBM; -ENOTSUP: this
// device maps single allocations only (Trn1, Inf2).
int ndl_get_hbm_va(ndl_device_t *device, int hbm_idx, void **va, size_t *size);

// The allocation, of any process, that contains address pa. mem_handle may be NULL; otherwise it
// receives a handle that the caller frees.
int ndl_mem_get_mc_mmap_info(ndl_device_t *device, uint64_t pa, uint64_t *mmap_offset,
                             uint64_t *size, uint64_t *mem_handle);

// Exports the mapped range [addr, addr + size) as a dma-buf; the caller closes *fd.
int ndl_get_dmabuf_fd(uint64_t addr, uint64_t size, int *fd);

// Which device and HBM a mapped address belongs to. -EINVAL: to none that this process has mapped.
int ndl_get_va_placement(const void *va, int *device_index, int *hbm_index);

// Live allocations of one HBM, of all processes. *num_entries in: room in data, out: entries.
// -EAGAIN with *num_entries set when the room is too small: call with 0 first.
int ndl_dump_device_allocation_info(ndl_device_t *device, uint32_t hbm_index,
                                    struct neuron_ioctl_mem_chunk_info *data,
                                    uint32_t *num_entries);

// Fills a whole HBM, less what the firmware keeps, with a 32-bit pattern, whoever uses it. One at a
// time per HBM; the driver bounds the wait.
int ndl_hbm_scrub_start(ndl_device_t *device, uint32_t nc_id, uint32_t hbm_index, uint32_t axi_port,
                        uint32_t init_val);
int ndl_hbm_scrub_wait(ndl_device_t *device, uint32_t nc_id, uint32_t hbm_index);

// Scratch memory at the end of an HBM that grows by further calls without moving. -ENOTSUP without
// the driver's feature bit. The mapping may be shorter than the allocation.
int ndl_alloc_contiguous_scratchpad(ndl_device_t *device, uint64_t size, uint32_t hbm_index,
                                    uint32_t nc_id, uint64_t *mem_handle);
int ndl_memory_map_contiguous_scratchpad(uint64_t mem_handle, void **va, uint64_t size);

// Staging buffer of a core (NDL_COPY_BUF_SIZE bytes, mapped), made on first use and owned by the
// device. Returned locked: the caller unlocks cpy_buf->lock when done.
int ndl_get_copy_buf(ndl_device_t *device, uint32_t nc_id, ndl_copy_buf_t **cpy_buf);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NDL_MEMORY_H
