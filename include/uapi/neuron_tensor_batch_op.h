/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One transfer of a batched tensor read or write.
 *
 * Shared by the runtime (nrt_tensor_read_batch, nrt_tensor_write_batch), the driver library and the
 * kernel interface (NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES): the array travels from the caller of
 * the runtime to the driver without being copied. Uses stdint names because applications see it.
 */
#ifndef NEURON_UAPI_TENSOR_BATCH_OP_H
#define NEURON_UAPI_TENSOR_BATCH_OP_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

typedef uint64_t nrt_tensor_batch_offset_t; /* byte offset into the tensor */
typedef uint64_t nrt_tensor_batch_size_t;   /* bytes to move */

/* buffer is host memory of the caller, read or written until the batch call returns. */
typedef struct nrt_tensor_batch_op {
  nrt_tensor_batch_offset_t offset;
  nrt_tensor_batch_size_t size;
  void *buffer;
} nrt_tensor_batch_op_t;

#endif /* NEURON_UAPI_TENSOR_BATCH_OP_H */
