// SPDX-License-Identifier: Apache-2.0
// The runtime: cores, models, tensors, execution.
//
// Order: nrt_init; load models, make tensors, execute; nrt_close, which also frees what was left.
// Thread-safe: every function, except that an object must not be freed while another call uses it;
// executions on one core take turns. A virtual core (vnc) is numbered from 0 among the cores that
// this process owns and is one or two physical cores (NEURON_LOGICAL_NC_CONFIG).
//
// Unless said otherwise: NRT_UNINITIALIZED before nrt_init, NRT_CLOSED after nrt_close, NRT_INVALID
// for a NULL or impossible argument. Sizes and offsets are bytes. Output arguments stay untouched
// when a call fails. A call that fails writes one sentence with the cause to the log.
#ifndef NRT_H
#define NRT_H

#include "nrt/nrt_status.h"
#include "nrt/nrt_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Kind of host this is. Fills at most instance_info_len bytes of *info.
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *info, size_t instance_info_len);

// Claims cores (NEURON_RT_VISIBLE_CORES, NEURON_RT_NUM_CORES; all by default), resets them and
// prepares the process. The environment is read here. The two strings are for operator tools and
// may be empty. A second call without nrt_close between succeeds and changes nothing; after
// nrt_close the runtime may be initialised anew, also with other cores. NRT_FAILURE: no device, or
// another process holds the cores; the log names it.
NRT_STATUS nrt_init(nrt_framework_type_t framework, const char *fw_version,
                    const char *fal_version);

// Waits for running executions, frees models, tensors and sets that are left, and gives the cores
// back. Harmless when there is nothing to close. A caller that declares it with NRT_STATUS, as the
// public guide does, gets NRT_SUCCESS, or why the runtime stays open.
void nrt_close(void);

// Loads a NEFF on `vnc`, or on the first free virtual core if vnc is -1. vnc_count: -1 (or the
// number of virtual cores the model needs). The bytes may be released after the call. The caller
// unloads *model. NRT_UNSUPPORTED_NEFF_VERSION: made by or for something this runtime does not
// know; NRT_INVALID: the NEFF is damaged or contradicts itself; NRT_RESOURCE: not enough memory;
// NRT_LOAD_NOT_ENOUGH_NC: not enough cores; NRT_TIMEOUT.
NRT_STATUS nrt_load(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                    nrt_model_t **model);

// The same for a NEFF with collective operations: this process is number ctx_device_id of
// ctx_device_count that load it. With NEURON_RT_ROOT_COMM_ID set it returns when all have arrived.
// Without, all are in this process, and one thread may load them one by one: they meet in their
// first executions, or in the next nrt_barrier.
NRT_STATUS nrt_load_collectives(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                                uint32_t ctx_device_id, uint32_t ctx_device_count,
                                nrt_model_t **model);

// Waits for running executions of the model and frees it; the handle is dead afterwards, whatever
// is returned.
NRT_STATUS nrt_unload(nrt_model_t *model);

// Virtual cores that a model occupies. The first name is the old spelling.
NRT_STATUS nrt_get_model_nc_count(const nrt_model_t *model, uint32_t *vnc_count);
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t *model, uint32_t *vnc_count);

// Virtual cores of this host, whatever the environment selects. May be called before nrt_init;
// NRT_FAILURE or a count of 0 mean that there is no device. The first name is the old spelling.
NRT_STATUS nrt_get_total_nc_count(uint32_t *vnc_count);
NRT_STATUS nrt_get_total_vnc_count(uint32_t *vnc_count);

// Virtual cores that this process has or, before nrt_init, that the environment selects.
NRT_STATUS nrt_get_visible_nc_count(uint32_t *vnc_count);
NRT_STATUS nrt_get_visible_vnc_count(uint32_t *vnc_count);

// A tensor set maps names to tensors. It does not own them: a tensor lives at least as long as the
// sets that hold it.
NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t **result);

// Frees the set, not its tensors, and sets *tensor_set to NULL. NULL is accepted.
void nrt_destroy_tensor_set(nrt_tensor_set_t **tensor_set);

// Adds a tensor under a name (copied), replacing what had that name.
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name,
                                        nrt_tensor_t *tensor);

// The tensor of that name; the set still does not own it. NRT_FAILURE: there is none.
NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name,
                                          nrt_tensor_t **tensor);

// Runs the model once and returns when the outputs are written. Tensors are matched to the model's
// inputs and outputs by set name; other names in a set are ignored; one tensor may be input and
// output. NRT_INVALID: a name is missing, a size differs, or a tensor is on another HBM;
// NRT_TIMEOUT: not finished within NEURON_RT_EXEC_TIMEOUT seconds; NRT_EXEC_* and NRT_HW_ERROR:
// what the device reported, with engine, program counter and instruction in the log.
NRT_STATUS nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input_set,
                       nrt_tensor_set_t *output_set);

// Runs it repeat_count times, feeding outputs back as inputs in a model that was built for that.
NRT_STATUS nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *input_set,
                              nrt_tensor_set_t *output_set, int repeat_count);

// Connects this process, number g_device_id of g_device_count, with the others before the first
// collective load. g_device_count is the largest number that any model will use.
NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

// Makes a tensor of `size` bytes (at least 1), zeroed. vnc: owning core, whose HBM holds a DEVICE
// tensor; -1 is allowed for the other placements. name (copied, may be NULL) is for the log only.
// The caller frees *tensor. NRT_RESOURCE: not enough memory; NRT_INVALID: no such core.
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size,
                               const char *name, nrt_tensor_t **tensor);

// Frees and sets *tensor to NULL. NULL is accepted. Memory shared with slices lives on with them;
// an attached buffer stays the caller's.
void nrt_tensor_free(nrt_tensor_t **tensor);

// Copies between the caller's memory and a tensor, waiting for executions that use it. NRT_INVALID:
// the range leaves the tensor, or the tensor has no storage. A size of 0 succeeds.
NRT_STATUS nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_write(nrt_tensor_t *tensor, const void *buf, size_t offset, size_t size);

// Many of them. All ranges are checked before the first byte moves; if a transfer fails, those
// before it are done. unsafe: do not wait for executions that use the tensors.
NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches,
                                 bool unsafe);
NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches,
                                  bool unsafe);

// Copies between tensors. NRT_INVALID: a range is wrong, both are on devices but not on one HBM, or
// the ranges overlap (in one tensor, or in slices of one). The same range twice is no copy and no
// error.
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst,
                           size_t dst_offset, size_t size);

// Bytes of a tensor; 0 for one without storage and for NULL.
size_t nrt_tensor_get_size(const nrt_tensor_t *tensor);

// Fills a range with the low byte of value.
NRT_STATUS nrt_tensor_memset(nrt_tensor_t *tensor, uint64_t offset, int value, size_t size);

// Makes a tensor without storage, to which nrt_tensor_attach_buffer gives some.
NRT_STATUS nrt_tensor_allocate_empty(const char *name, nrt_tensor_t **tensor);

// Makes `buffer` the storage of a tensor, which becomes a VIRTUAL one; storage that it owned is
// freed. The buffer stays the caller's and outlives the tensor.
NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t *tensor, void *buffer, size_t size);

// Makes a tensor that is part of another, without a copy; a slice may be sliced. The storage lives
// until the last tensor on it is freed, in any order. NRT_INVALID: the range leaves the source, or
// it has no storage.
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t *tensor_source, size_t offset, size_t size,
                                     const char *name, nrt_tensor_t **tensor_slice);

// Address of the tensor in this process, device tensors included, until it is freed; NULL if it has
// no storage.
void *nrt_tensor_get_va(const nrt_tensor_t *tensor);

// Where a DEVICE tensor is. NRT_INVALID for the other placements.
NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t *tensor,
                                                 nrt_tensor_device_allocation_info_t *alloc_info);

// Waits until as many executions as expected_completion_count have written the tensor since it was
// made or its counter was reset. timeout: microseconds; negative waits without limit, with a
// warning in the log after 30 s. NRT_TIMEOUT.
NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t *output_tensor, int64_t timeout,
                                              uint64_t expected_completion_count);

// Sets that counter to 0.
NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t *output_tensor);

// dma-buf descriptor for `size` bytes from va, the start of a device tensor; the caller closes it.
// Any status but NRT_RESOURCE means that the caller may register the memory another way.
NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int *fd);

// Number on the host of device neuron_dev of this process (they differ in containers).
NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t *host_device_id);

// Routing id of each device of the host. *count in: room, out: devices.
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t *count, uint32_t *host_did_to_rid_map);

// Address and size at which an HBM is mapped whole, for hbm_idx from 0 on. NRT_INVALID_HANDLE:
// there are no more; NRT_INVALID: this device does not map an HBM whole; NRT_FAILURE.
NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void **addr, size_t *size);

// Device memory of a virtual core. Fills at most stats_size_in bytes and says in *stats_size_out
// (may be NULL) how many.
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t *stats,
                                    size_t stats_size_in, size_t *stats_size_out);

// PCI address ("0000:10:19.0") of the network adapter nearest to the device that holds va. *len in:
// room with the NUL, out: length without it; unchanged on failure. NRT_RESOURCE: too little room;
// NRT_FAILURE: the host has none; NRT_INVALID: va is in no tensor on a device.
NRT_STATUS nrt_get_attached_efa_bdf(const void *va, char *efa_bdf, size_t *len);

// Connects the participants of host-driven collective operations; before nrta_cc_prepare.
NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_H
