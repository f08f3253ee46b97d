/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Asynchronous copies of /dev/neuronN through io_uring (IORING_OP_URING_CMD), an addition of this
 * project's driver: the public driver has no such calls and answers EOPNOTSUPP.
 *
 * - The ring is made with IORING_SETUP_SQE128; sqe->fd is a full descriptor of the device (not one
 *   opened O_WRONLY), the submitting process has opened the device itself (else EACCES), sqe->cmd_op
 *   is one of the numbers below, and the struct that belongs to it lies in sqe->cmd. No flag of the
 *   entry changes the meaning of a command.
 * - NEURON_URING_QUERY comes first: cqe->res is the version of this interface, 1 or more. Anything
 *   negative means that there is none, and copies go through ioctl.
 * - A copy is accepted or refused at once and completes when the last byte has arrived: cqe->res is
 * 0 or a negative error number, which are those of the ioctl of the same purpose. -EBUSY: too many
 *   transfers are waiting; reap completions and submit it again.
 * - Commands of one descriptor that use the same core's ring are carried out in the order of their
 *   submission; others in any order. Completions may be posted in another order.
 * - The pages of a user buffer are pinned at submission, so the process may unmap them at once.
 * What they hold is undefined until completion. The range of a handle may be freed while a copy
 * runs: its memory is given back when the copy has ended.
 * - Closing the descriptor in a process cancels what has not begun (-ECANCELED) and waits for the
 *   rest. A device that vanishes ends all with -ENODEV.
 */
#ifndef NEURON_UAPI_URING_H
#define NEURON_UAPI_URING_H

#include "uapi/neuron_ioctl.h"

#define NEURON_URING_VERSION 1

/* Most bytes of one command: longer copies are cut by the caller. */
#define NEURON_URING_COPY_BYTES (1u << 30)
#define NEURON_URING_TRANSFER_BYTES (64u << 20)

/* From one handle to another of the same device. */
struct neuron_uring_copy {
  __u64 source_handle;
  __u64 destination_handle;
  __u64 source_offset;
  __u64 destination_offset;
  __u64 size;
  __u64 flags; /* 0 */
};

/* Between a user buffer and a handle. */
struct neuron_uring_transfer {
  __u64 mem_handle;
  __u64 offset; /* in the memory of the handle */
  __u64 buffer; /* address in the process */
  __u64 size;
  __u64 flags; /* 0 */
};

#define NEURON_URING_QUERY _IO(NEURON_IOCTL_BASE, 224)
#define NEURON_URING_COPY _IOW(NEURON_IOCTL_BASE, 225, struct neuron_uring_copy)
#define NEURON_URING_WRITE _IOW(NEURON_IOCTL_BASE, 226, struct neuron_uring_transfer)
#define NEURON_URING_READ _IOR(NEURON_IOCTL_BASE, 227, struct neuron_uring_transfer)

#endif /* NEURON_UAPI_URING_H */
