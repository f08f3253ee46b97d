// SPDX-License-Identifier: Apache-2.0
// Runtime calls that are younger or older than the core of the interface: model information, older
// tracing, custom-operator microcode, small host collectives.
//
// Rules for threads, ownership and errors are those of nrt.h.
#ifndef NRT_EXPERIMENTAL_H
#define NRT_EXPERIMENTAL_H

#include "nrt/nrt.h"
#include "uapi/neuron_abi.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum nrt_tensor_usage {
  NRT_TENSOR_USAGE_INPUT = 0,
  NRT_TENSOR_USAGE_OUTPUT = 1,
} nrt_tensor_usage_t;

#define NRT_TENSOR_NAME_MAX 256  // with the NUL

typedef struct nrt_tensor_info {
  char name[NRT_TENSOR_NAME_MAX];
  nrt_tensor_usage_t usage;
  size_t size;  // bytes
  nrt_dtype_t dtype;
  uint32_t *shape;  // ndim extents; belongs to the array
  uint32_t ndim;
} nrt_tensor_info_t;

typedef struct nrt_tensor_info_array {
  uint64_t tensor_count;
  NEURON_EXTENSION_BEGIN
  nrt_tensor_info_t tensor_array[];
  NEURON_EXTENSION_END
} nrt_tensor_info_array_t;

// Inputs and outputs of a model. Free with nrt_free_model_tensor_info, also after the model is
// gone.
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t *model, nrt_tensor_info_array_t **tensor_info);

// NULL is accepted.
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t *tensor_info);

// Hint for the number of threads that execute a model; at least 1.
NRT_STATUS nrt_get_model_instance_count(nrt_model_t *model, uint32_t *instance_count);

typedef struct nrt_model_info {
  uint32_t vnc;  // first virtual core of the model
} nrt_model_info_t;

// Fills at most info_size_in bytes and says in *info_size_out (may be NULL) how many.
NRT_STATUS nrt_get_model_info(const nrt_model_t *model, nrt_model_info_t *info, size_t info_size_in,
                              size_t *info_size_out);

// Records runtime calls (and memory, if asked) until nrt_trace_stop writes them to a file. One
// trace per process: NRT_FAILURE if one runs, or none does.
NRT_STATUS nrt_trace_start(bool trace_mem);
NRT_STATUS nrt_trace_stop(const char *filename);

// Interface of the network plug-in that the collectives library loaded; NULL with *err set and a
// text in err_msg if there is none. Owned by the library.
void *nrt_get_libnccl_net(int *err, char *err_msg, size_t err_msg_size);

typedef struct nrt_ucode_img {
  uint8_t *bin;
  size_t size;
} nrt_ucode_img;

typedef struct nrt_ucode_info {
  nrt_ucode_img iram;
  nrt_ucode_img dram;
} nrt_ucode_info;

// Replaces the microcode of the GPSIMD engines; before nrt_init only. The images are copied.
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info *ucode_info);

// Copies by CPU to an address inside a mapped device tensor. NRT_INVALID: the range is not inside
// one tensor. There is no call for the other direction: read through nrt_tensor_get_va.
NRT_STATUS nrt_memcpy_to_device(void *dest, const void *src, size_t size);

// Called when an implicitly asynchronous execution ends. That mode was removed: the callback is
// kept and never called.
typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void *params, uint32_t model_id, uint32_t vnc,
                                               uint64_t job_id, NRT_STATUS status);
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params);

// Waits for implicitly asynchronous executions; as there are none, returns at once.
NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc);

// Returns when all g_device_count participants have called it.
NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

// Gathers rank_input_size bytes of host memory from each participant; output has room for all of
// them, in order of their ids.
NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                          uint32_t rank_input_size, void *input, void *output);

// As nrt_get_dmabuf_fd, for any mapped device address: *offset is where va lies in the dma-buf. Not
// in the published headers; libfabric looks it up by this name and signature before the older call.
NRT_STATUS nrt_get_dmabuf_fd_v2(uint64_t va, uint64_t size, int *fd, uint64_t *offset);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_EXPERIMENTAL_H
