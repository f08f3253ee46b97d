// SPDX-License-Identifier: Apache-2.0
// Types of the runtime: enumerations, handles and the structs that calls fill.
//
// nrt_model_t and nrt_tensor_t are handles, made and freed by nrt_* calls only; a stale one is
// recognised and answered with NRT_INVALID_HANDLE or NRT_INVALID. Structs with a size argument in
// their call may grow at the end.
#ifndef NRT_TYPES_H
#define NRT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ndl/neuron_driver_shared_tensor_batch_op.h"
#include "nrt/nrt_status.h"

#define NRT_MAJOR_VERSION 2
#define NRT_MINOR_VERSION 0

typedef struct nrt_model nrt_model_t;
typedef struct nrt_tensor nrt_tensor_t;
typedef void nrt_tensor_set_t;
typedef struct nrt_cc_context nrt_cc_context_t;

typedef enum {
  NRT_TENSOR_PLACEMENT_DEVICE = 0,  // HBM of a core
  NRT_TENSOR_PLACEMENT_HOST = 1,    // host memory that the device reaches; at most 4 MiB
  NRT_TENSOR_PLACEMENT_VIRTUAL =
      2,  // plain host memory; what a tensor becomes by attaching a buffer
} nrt_tensor_placement_t;

// Who calls; shown by operator tools, without other effect.
typedef enum {
  NRT_FRAMEWORK_TYPE_INVALID = 0,
  NRT_FRAMEWORK_TYPE_NO_FW = 1,
  NRT_FRAMEWORK_TYPE_TENSORFLOW = 2,
  NRT_FRAMEWORK_TYPE_PYTORCH = 3,
  NRT_FRAMEWORK_TYPE_MXNET = 4,
  NRT_FRAMEWORK_TYPE_PRECHECK = 5,
} nrt_framework_type_t;

// nrt_instance_info_t.family
enum {
  NRT_INSTANCE_UNKNOWN = 0,
  NRT_INSTANCE_INF1 = 1,
  NRT_INSTANCE_TRN1 = 2,
  NRT_INSTANCE_TRN1N = 3,
  NRT_INSTANCE_INF2 = 4,
  NRT_INSTANCE_TRN2 = 5,
  NRT_INSTANCE_TRN2N = 6,
  NRT_INSTANCE_INF2E = 7,
  NRT_INSTANCE_TRN2P = 8,
  NRT_INSTANCE_TRN2U = 9,
  NRT_INSTANCE_TRN2E = 10,
  NRT_INSTANCE_TRN2EU = 11,
  NRT_INSTANCE_TRN2AC = 12,
  NRT_INSTANCE_TRN2UAC = 13,
  NRT_INSTANCE_TRN3 = 14,
  NRT_INSTANCE_TRN3PDS98 = 15,
};

// nrt_instance_info_t.size
enum {
  NRT_INSTANCE_SIZE_1XL = 0,
  NRT_INSTANCE_SIZE_2XL = 1,
  NRT_INSTANCE_SIZE_4XL = 2,
  NRT_INSTANCE_SIZE_6XL = 3,
  NRT_INSTANCE_SIZE_8XL = 4,
  NRT_INSTANCE_SIZE_24XL = 5,
  NRT_INSTANCE_SIZE_32XL = 6,
  NRT_INSTANCE_SIZE_48XL = 7,
  NRT_INSTANCE_SIZE_3XL = 8,
  NRT_INSTANCE_SIZE_UNKNOWN = 9,
  NRT_INSTANCE_SIZE_NUM = NRT_INSTANCE_SIZE_UNKNOWN,
};

typedef struct nrt_instance_info {
  uint32_t family;
  uint32_t size;
  char arch_name[16];       // text, NUL-terminated
  char device_revision[8];  // text, NUL-terminated
} nrt_instance_info_t;

// Reduction of a collective operation.
typedef enum nrt_op_type {
  NRT_OP_ADD = 0,
  NRT_OP_FMA = 1,
  NRT_OP_MAX = 2,
  NRT_OP_MIN = 3,
  NRT_OP_INVALID = 15,
} nrt_op_type_t;

// Element types, with the codes that the engines use.
typedef enum nrt_dtype {
  NRT_DTYPE_UNKNOWN = 0,
  NRT_DTYPE_INVALID = 0,
  NRT_DTYPE_FP8_E3 = 13,
  NRT_DTYPE_FP8_E4 = 14,
  NRT_DTYPE_FP8_E5 = 15,
  NRT_DTYPE_FLOAT16 = 7,
  NRT_DTYPE_BFLOAT16 = 6,
  NRT_DTYPE_FLOAT32 = 10,
  NRT_DTYPE_FP32R = 11,  // fp32, multiplied with reduced precision
  NRT_DTYPE_UINT8 = 3,
  NRT_DTYPE_UINT16 = 5,
  NRT_DTYPE_UINT32 = 9,
  NRT_DTYPE_UINT64 = 1,
  NRT_DTYPE_INT8 = 2,
  NRT_DTYPE_INT16 = 4,
  NRT_DTYPE_INT32 = 8,
  NRT_DTYPE_INT64 = 12,
} nrt_dtype_t;

typedef enum nrt_cc_op_type {
  NRT_CC_ALLGATHER = 0,
  NRT_CC_ALLREDUCE = 1,
  NRT_CC_REDUCESCATTER = 2,
} nrt_cc_op_type_t;

// Transfers on one tensor.
typedef struct nrt_tensor_batch {
  const nrt_tensor_t *tensor;
  const nrt_tensor_batch_op_t *ops;
  uint32_t num_ops;
} nrt_tensor_batch_t;

typedef struct nrt_tensor_device_allocation_info {
  uint64_t physical_address;  // as the device sees it
  size_t size;                // bytes of the allocation, which may exceed the tensor's
  int hbm_index;
} nrt_tensor_device_allocation_info_t;

typedef struct nrt_vnc_memory_stats {
  size_t bytes_used;
  size_t bytes_limit;
} nrt_vnc_memory_stats_t;

// Who takes part in a host-driven collective operation, and as what.
typedef struct nrt_cc_comm {
  uint32_t *replica_group;  // rank_n global ids
  uint32_t rank;
  uint32_t rank_n;
  uint32_t ctx_device_id;
  uint32_t ctx_device_count;
  uint32_t vnc;
} nrt_cc_comm_t;

typedef struct nrt_tensor_list {
  nrt_tensor_t **tensors;
  size_t num_tensors;
} nrt_tensor_list_t;

#endif  // NRT_TYPES_H
