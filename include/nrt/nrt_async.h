// SPDX-License-Identifier: Apache-2.0
// Explicitly asynchronous work: schedule transfers, executions and collective operations, ask
// later.
//
// Work goes to execution units (XU): per virtual core one kind of unit for reads, writes, copies,
// executions and collectives, each with queues. One queue is first in, first out; nothing is
// ordered between queues. Each request gets a sequence id, increasing per queue.
//
// Thread-safe: every function. A schedule call returns NRT_SUCCESS when the request is queued,
// NRT_QUEUE_FULL when one completion must be waited for first, NRT_EXEC_UNIT_UNRECOVERABLE when the
// unit is dead until the next nrt_init, NRT_INVALID for arguments; nothing is queued then. A read
// of a tensor that an execution in flight writes is the caller's race.
//
// Two epochs of this interface have the same names. By default this header declares 3.0: the last
// argument but one of a schedule call is a status word (may be NULL), written when the request has
// completed and not before. With NRT_ASYNC_VERSION defined as 2 it declares the older one, in which
// that argument is an error tracker, and binds to its symbols (version NRT_2.0.0).
//
// Lifetime: host buffers and the status word stay alive until the request has completed. This
// library keeps models and the memory of tensors that a request uses; a set may be changed and a
// tensor freed once the schedule call has returned.
#ifndef NRT_ASYNC_H
#define NRT_ASYNC_H

#include "nrt/nrt.h"

#ifndef NRT_ASYNC_VERSION
#define NRT_ASYNC_VERSION 3
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum {
  NRTA_XU_TENSOR_READ = 0,
  NRTA_XU_TENSOR_WRITE = 1,
  NRTA_XU_TENSOR_OP = 2,
  NRTA_XU_COMPUTE = 3,
  NRTA_XU_COLLECTIVES = 4,
  NRTA_XU_TYPE_NUM = 5,
} nrta_xu_t;

// Sequence id: number of the unit in the upper 16 bits, counter in the lower 48.
typedef uint64_t nrta_seq_t;

#define NRTA_SEQ_NUM_MAX ((1ull << 48) - 1)
#define NRTA_SEQ_NUM_MASK NRTA_SEQ_NUM_MAX
#define NRTA_SEQ_GET_SEQ_NUM(seq_id) ((seq_id)&NRTA_SEQ_NUM_MASK)
#define NRTA_SEQ_GET_XU_ID(seq_id) ((seq_id) >> 48)

// Errors of the older epoch.
typedef struct nrta_error {
  nrta_seq_t seq_id;
  uint64_t error_code;  // NRT_STATUS
} nrta_error_t;

// Collects the errors of the requests that name it. NULL is accepted by every schedule call.
typedef struct nrta_error_tracker nrta_error_tracker_t;

#if NRT_ASYNC_VERSION < 3
#define NRTA_RESULT nrta_error_tracker_t *err
#define NRTA_BIND(name) __asm__(".symver " #name "," #name "@NRT_2.0.0")
#else
#define NRTA_RESULT NRT_STATUS *ret
#endif

// Copies from host memory, to host memory, and between tensors; the unit is that of the core that
// owns the tensor (for copies, the source; core 0 for tensors in host memory). queue: 0 or 1.
// req_sequence may be NULL.
NRT_STATUS nrta_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size,
                             int queue, NRTA_RESULT, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size,
                            int queue, NRTA_RESULT, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst,
                            uint64_t dst_offset, uint64_t size, int queue, NRTA_RESULT,
                            nrta_seq_t *req_sequence);

// nrt_execute on the model's core, with the tensors that the sets hold now; queue is 0. A model
// that is unloaded first fails what has not begun with NRT_INVALID_HANDLE. An nrt_execute on the
// same core begins after the executions that were scheduled before it.
NRT_STATUS nrta_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input,
                                 nrt_tensor_set_t *output, int queue, NRTA_RESULT,
                                 nrta_seq_t *req_sequence);

// Prepares a host-driven collective operation over tensors of this core; all participants prepare
// and schedule the same operations in the same order. In-place operation is allowed.
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t *comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output,
                           nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                           nrt_cc_context_t **cc_ctx);

// Schedules it; queue is 0. Takes the context over and sets *cc_ctx to NULL.
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t **cc_ctx, int queue, NRTA_RESULT,
                            nrta_seq_t *req_sequence);

// Whether a request has completed, with or without error. NRT_INVALID: there never was such a
// request since nrt_init.
NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool *is_completed);

// The last request of a queue that has completed; ids of one queue compare with >=. Before the first
// one it is the id before all requests, which nrta_is_completed does not know.
NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq);

#if NRT_ASYNC_VERSION < 3
// A descriptor that polls readable once the request has completed. Poll only; the caller closes it.
NRT_STATUS nrta_get_completion_handle(nrta_seq_t seq, int *fd);

// An error tracker for one virtual core, freed by the caller after the requests that use it.
NRT_STATUS nrta_error_tracker_create(uint32_t lnc_idx, nrta_error_tracker_t **error_tracker);
void nrta_error_tracker_destroy(nrta_error_tracker_t *error_tracker);

// Errors since the last call; beyond 65,536 of them the oldest are dropped. The array is the
// tracker's, valid until this thread's next call on it.
NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t *error_tracker,
                                       const nrta_error_t **list, size_t *error_count);

NRTA_BIND(nrta_tensor_write);
NRTA_BIND(nrta_tensor_read);
NRTA_BIND(nrta_tensor_copy);
NRTA_BIND(nrta_execute_schedule);
NRTA_BIND(nrta_cc_schedule);
NRTA_BIND(nrta_is_completed);
NRTA_BIND(nrta_get_sequence);
#else
// Adds 1 to an eventfd of the caller when the request completes, at once if it has completed. -1
// takes back all registrations of the request. The library uses a duplicate of the descriptor.
NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t seq, int event_fd);

// Adds to an eventfd the number of requests of a queue that complete from now on, as they complete;
// -1 takes it back. There is one such descriptor per queue, the last. The original has a function
// of this name whose arguments are not public: these are ours.
NRT_STATUS nrta_event_register_xu_completion(uint32_t lnc, nrta_xu_t xu, int queue, int event_fd);
#endif

#undef NRTA_BIND
#undef NRTA_RESULT

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_ASYNC_H
