// SPDX-License-Identifier: Apache-2.0
// C interface of libccom.so.1: collectives between ranks of one host and of several.
//
// A *communicator* joins `size` ranks, numbered from 0. Every rank issues the same collectives in
// the same order on each stream of a communicator; if a rank does not, the error names it and both
// sides (CCOM_MISMATCH). Nothing here waits without a deadline, throws, or ends the process. A call
// that fails leaves its sentence in ccom_last_error() of the calling thread. Counts are in
// elements, sizes in bytes. Threads: a communicator belongs to one thread at a time, except for
// ccom_abort, ccom_revoke, ccom_dump, ccom_status, ccom_tell and ccom_told, which any thread may
// call.
#ifndef CCOM_CCOM_H
#define CCOM_CCOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CCOM_VERSION_MAJOR 1
#define CCOM_VERSION_MINOR 2
#define CCOM_MAX_STREAMS 4
#define CCOM_SIGNALS 32             // that a rank counts of each other rank, in each window
#define CCOM_NO_SIGNAL 0xffffffffu  // of ccom_put
#define CCOM_NOTICE_BYTES 1000      // of a notice's sentence
#define CCOM_NOTICES 64             // that a communicator keeps

// Numbers are the contract and are never reused.
typedef enum ccom_status {
  CCOM_SUCCESS = 0,
  CCOM_INVALID = 1,    // an argument is wrong: the sentence says which
  CCOM_MISMATCH = 2,   // ranks disagree about operation, type, count, root, order, world or version
  CCOM_TIMEOUT = 3,    // the deadline passed; the sentence names who is missing
  CCOM_RANK_DEAD = 4,  // a rank's process ended
  CCOM_ABORTED = 5,    // ccom_abort was called, here or on another rank
  CCOM_RESOURCE = 6,   // memory, file descriptors or another limit
  CCOM_UNSUPPORTED = 7,  // this build or this group cannot do it
  CCOM_SYSTEM = 8,       // a system call failed unexpectedly
  CCOM_IN_PROGRESS = 9,  // ccom_test: not done yet; ccom_told: nothing was told
  CCOM_REFUSED = 10,     // a connection without the job's secret
  CCOM_REVOKED = 11,     // ccom_revoke was called, here or on another rank
} ccom_status_t;

// Elements. Numbers follow the order of width; fp32r computes as fp32.
typedef enum ccom_type {
  CCOM_UINT8 = 0,
  CCOM_INT8 = 1,
  CCOM_FP8_E3 = 2,
  CCOM_FP8_E4 = 3,
  CCOM_FP8_E5 = 4,
  CCOM_UINT16 = 5,
  CCOM_INT16 = 6,
  CCOM_FP16 = 7,
  CCOM_BF16 = 8,
  CCOM_UINT32 = 9,
  CCOM_INT32 = 10,
  CCOM_FP32 = 11,
  CCOM_UINT64 = 12,
  CCOM_INT64 = 13,
  CCOM_TYPE_COUNT = 14,
} ccom_type_t;

// Integers wrap; average divides the sum once, towards zero for integers. Floating-point types
// accumulate in fp32 and round once per reduction step. min and max: a NaN of any rank wins.
typedef enum ccom_reduction {
  CCOM_ADD = 0,
  CCOM_MIN = 1,
  CCOM_MAX = 2,
  CCOM_PRODUCT = 3,
  CCOM_AVERAGE = 4,
  CCOM_REDUCTION_COUNT = 5,
} ccom_reduction_t;

// What `count` of ccom_collective_t means, in elements, and the sizes of the buffers.
typedef enum ccom_operation {
  CCOM_ALL_REDUCE = 0,         // input count, output count
  CCOM_ALL_GATHER = 1,         // input count, output size * count
  CCOM_REDUCE_SCATTER = 2,     // input size * count, output count
  CCOM_ALL_TO_ALL = 3,         // input and output size * count; block i goes to rank i
  CCOM_BROADCAST = 4,          // output count everywhere; input count at the root
  CCOM_REDUCE = 5,             // input count; output count at the root
  CCOM_GATHER = 6,             // input count; output size * count at the root
  CCOM_SCATTER = 7,            // input size * count at the root; output count
  CCOM_SEND_RECEIVE = 8,       // count elements from pairs[0].source to pairs[0].target
  CCOM_PERMUTE = 9,            // count elements along every pair
  CCOM_BARRIER = 10,           // no data
  CCOM_ALL_GATHER_V = 11,      // counts[i] elements from rank i, at displacements[i] of the output
  CCOM_REDUCE_SCATTER_V = 12,  // counts[i] elements to rank i, from displacements[i] of the input
  CCOM_ALL_TO_ALL_V = 13,      // see send_counts and the three arrays behind it
  CCOM_OPERATION_COUNT = 14,
} ccom_operation_t;

typedef enum ccom_algorithm {
  CCOM_ALGORITHM_AUTO = 0,
  CCOM_RING = 1,
  CCOM_BIDIRECTIONAL_RING = 2,    // several channels, half of them against the others
  CCOM_TWO_D_RING = 3,            // within the node, between nodes, within the node
  CCOM_PIPELINED_TWO_D_RING = 4,  // the same in segments, three stages at once
  CCOM_KANGARING = 5,
  CCOM_MESH = 6,           // every rank with every other, in two steps where there are two
  CCOM_ONE_STEP_MESH = 7,  // every rank reduces all data
  CCOM_RECURSIVE = 8,      // doubling and halving
  CCOM_TREE = 9,
  CCOM_HIERARCHICAL = 10,  // pipelined, any algorithm inside
  CCOM_PAIRWISE = 11,
  CCOM_BRUCK = 12,
  CCOM_TWO_LEVEL = 13,     // all-to-all within the node, then between nodes
  CCOM_NODE_CHAIN = 14,    // all-reduce in the order of the ranks, one node after the other
  CCOM_NODE_LEADERS = 15,  // all-reduce and all-gather of few bytes: a rank of each node doubles
  CCOM_ALGORITHM_COUNT = 16,
} ccom_algorithm_t;

typedef struct ccom_comm ccom_comm_t;
typedef struct ccom_request ccom_request_t;

typedef struct ccom_pair {
  uint32_t source;
  uint32_t target;
} ccom_pair_t;

// Zero is the default of every field; `size_of` must be sizeof(ccom_options_t).
typedef struct ccom_options {
  size_t size_of;
  const char *root;    // "ADDRESS:PORT" of rank 0; null: NEURON_RT_ROOT_COMM_ID
  const char *secret;  // shared by the job; null: CCOM_SECRET, else derived from the root's address
  uint32_t
      timeout_ms;  // of joining and of an operation without progress; 0: CCOM_TIMEOUT_MS, 60000
  uint64_t memory_bytes;  // address space of ccom_mem_alloc; 0: CCOM_MEMORY, 1 GiB
  const char *providers;  // in order of preference; null: CCOM_PROVIDERS
  const char *topology;   // profile name or file; null: what the driver says, else one node a host
  uint32_t local_device;  // chip of this rank, for the topology
  uint32_t flags;         // CCOM_FLAG_*
} ccom_options_t;
#define CCOM_FLAG_NO_SHARED_MEMORY 1u  // treat every rank as one on another host
#define CCOM_FLAG_FAST_ORDER 2u        // reduce in the order of the algorithm, not of the ranks

typedef struct ccom_collective {
  size_t size_of;  // sizeof(ccom_collective_t)
  ccom_operation_t operation;
  ccom_type_t type;
  ccom_reduction_t reduction;
  ccom_algorithm_t algorithm;
  uint32_t stream;  // below CCOM_MAX_STREAMS
  uint32_t root;
  // In place: input lies at the place of its data in output, or output at that in input. All ranks
  // are in place or none, also those with counts of 0. No other overlap.
  const void *input;
  void *output;
  uint64_t count;
  // all_gather_v, reduce_scatter_v: `size` counts and displacements. all_to_all_v: what goes out.
  const uint64_t *counts;
  const uint64_t *displacements;
  const uint64_t *receive_counts;  // all_to_all_v: what comes in
  const uint64_t *receive_displacements;
  const ccom_pair_t
      *pairs;  // send_receive, permute: each rank at most once as source and as target
  uint32_t pair_count;
  uint32_t timeout_ms;  // 0: that of the communicator
} ccom_collective_t;

// The sentence of this thread's last failed call; "" if none failed. Valid until the thread's next
// call.
const char *ccom_last_error(void);
const char *ccom_status_name(ccom_status_t status);
const char *ccom_version(void);

// Joins. Returns when all `size` ranks agree; otherwise the sentence names the missing ranks.
ccom_status_t ccom_init(uint32_t rank, uint32_t size, const ccom_options_t *options,
                        ccom_comm_t **comm);
// Joins all ranks of a communicator in this process, for threads: fills `comms[size]`.
ccom_status_t ccom_init_all(uint32_t size, const ccom_options_t *options, ccom_comm_t **comms);
// Ranks of the same color form a communicator, ordered by key, then rank; color < 0: none (null).
ccom_status_t ccom_split(ccom_comm_t *comm, int32_t color, int32_t key, ccom_comm_t **result);
// After a failure: a communicator of the ranks that are alive and call this; less than 1 s.
ccom_status_t ccom_shrink(ccom_comm_t *comm, ccom_comm_t **result);
// Adds ranks, without a restart of those that are there: a communicator of `size` ranks, more than
// this one has. Every rank calls this and keeps its number, while each new one calls ccom_init with
// the same size and secret, and with a number from ccom_size(comm) on. `root` is the address at
// which rank 0 collects them; null: that of this communicator, which ccom_split gives none of its
// own. `comm` stays as it is; its failure or revocation ends the growth, too.
ccom_status_t ccom_grow(ccom_comm_t *comm, uint32_t size, const char *root, ccom_comm_t **result);
// Operations under way end with CCOM_ABORTED on all ranks. Any thread.
ccom_status_t ccom_abort(ccom_comm_t *comm);
// The same on purpose, when nothing has failed: the status is CCOM_REVOKED, and no rank dumps its
// flight recorder. ccom_shrink makes a new communicator of the ranks. Any thread; does not wait.
ccom_status_t ccom_revoke(ccom_comm_t *comm);
ccom_status_t ccom_free(ccom_comm_t *comm);

uint32_t ccom_rank(const ccom_comm_t *comm);
uint32_t ccom_size(const ccom_comm_t *comm);
// CCOM_SUCCESS while usable, else why not.
ccom_status_t ccom_status(const ccom_comm_t *comm);

// What a rank told the others. `size_of` must be sizeof(ccom_notice_t).
typedef struct ccom_notice {
  size_t size_of;
  uint64_t number;
  uint32_t rank;
  char sentence[CCOM_NOTICE_BYTES + 1];
} ccom_notice_t;
// Sends a notice to all ranks, for example about work that they share outside the communicator. A
// notice ends no operation. Of the notices with one number a rank keeps the first that it receives,
// its own included, so that the consequences of a failure do not hide it. The CCOM_NOTICES highest
// numbers are kept. A sentence is cut behind CCOM_NOTICE_BYTES. Any thread; does not wait. Fails:
// CCOM_INVALID.
ccom_status_t ccom_tell(ccom_comm_t *comm, uint64_t number, const char *sentence);
// Returns the notice of the lowest number from `since` on. CCOM_IN_PROGRESS: there is none; that is
// not a failure and leaves no sentence. Any thread; does not wait. Fails: CCOM_INVALID.
ccom_status_t ccom_told(const ccom_comm_t *comm, uint64_t since, ccom_notice_t *notice);

// Memory that peers of this host can read in place, aligned to 4096. Freed with the communicator.
// Buffers from elsewhere work too, with one copy more. CCOM_INVALID: an open window shows the
// block.
ccom_status_t ccom_mem_alloc(ccom_comm_t *comm, size_t size, void **memory);
ccom_status_t ccom_mem_free(ccom_comm_t *comm, void *memory);

// Memory of this rank. `size_of` must be sizeof(ccom_memory_t).
typedef struct ccom_memory {
  size_t size_of;
  uint64_t allocated;  // by ccom_mem_alloc; of the windows' signals, too
  uint64_t working;    // of the library's copies of buffers and intermediate results
} ccom_memory_t;
ccom_status_t ccom_memory(const ccom_comm_t *comm, ccom_memory_t *memory);
// Gives the working memory back to the host until ccom_resume; ccom_mem_alloc's stays. All ranks
// call this, when none has an operation that was started and is not over. While suspended, an
// operation fails with CCOM_INVALID, which ends nothing.
ccom_status_t ccom_suspend(ccom_comm_t *comm);
// Ends that. All ranks call this.
ccom_status_t ccom_resume(ccom_comm_t *comm);

// Runs an operation to its end in the calling thread.
ccom_status_t ccom_run(ccom_comm_t *comm, const ccom_collective_t *collective);
// Starts an operation. The caller must not touch the buffers until ccom_test or ccom_wait reports
// its end, which frees the request.
ccom_status_t ccom_start(ccom_comm_t *comm, const ccom_collective_t *collective,
                         ccom_request_t **request);
ccom_status_t ccom_test(ccom_request_t *request);
ccom_status_t ccom_wait(ccom_request_t *request);

// Who is told of the end of a launched operation. `size_of` must be sizeof(ccom_completion_t).
typedef struct ccom_completion {
  size_t size_of;
  // Called once, by a thread of the communicator. `sentence`: of a failure, else "". Functions of
  // the communicator must not be called from it.
  void (*done)(void *context, ccom_status_t status, const char *sentence);
  void *context;
} ccom_completion_t;
// Starts an operation as ccom_start does, with its completion given at the launch: the library
// carries it on while the program does something else, and says when the buffers are free. What
// ccom_free finds unfinished ends with CCOM_ABORTED, before it returns.
ccom_status_t ccom_launch(ccom_comm_t *comm, const ccom_collective_t *collective,
                          const ccom_completion_t *completion);

// One-sided: each rank shows `size` bytes of its ccom_mem_alloc memory, or of a tensor on a device
// at the address that nrt_tensor_get_va gives, or none, and the others write there. All ranks open
// and close a window together; `window` gets its number, the same on all. The memory stays
// allocated until the window is closed, which ends what no signal has told of. A close that fails
// leaves the window open, unless the communicator has failed: then each rank closes for itself, and
// the memory is not given again before ccom_free. A tensor that is freed under an open window, and
// a device that goes away, end the communicator.
ccom_status_t ccom_window_open(ccom_comm_t *comm, void *memory, size_t size, uint32_t *window);
ccom_status_t ccom_window_close(ccom_comm_t *comm, uint32_t window);
// Writes to `offset` of the target's window, without a call of the target, and then signals.
// Returns when `source` may change again. `size` may be 0. `signal`: below CCOM_SIGNALS, or
// CCOM_NO_SIGNAL. Who has waited for the signal sees what the rank has put there before it. If the
// target takes nothing for the communicator's timeout, the communicator ends with CCOM_TIMEOUT.
ccom_status_t ccom_put(ccom_comm_t *comm, uint32_t window, uint32_t target, uint64_t offset,
                       const void *source, size_t size, uint32_t signal);
ccom_status_t ccom_signal(ccom_comm_t *comm, uint32_t window, uint32_t target, uint32_t signal);
// Waits until `source` has signalled `count` times more than was waited for before. CCOM_TIMEOUT
// ends nothing: the wait may be repeated. timeout_ms 0: that of the communicator.
ccom_status_t ccom_wait_signal(ccom_comm_t *comm, uint32_t window, uint32_t source, uint32_t signal,
                               uint64_t count, uint32_t timeout_ms);

// Explains the choice of the algorithm: candidates with their predicted times, and the provider
// between hosts. Writes at most `size` bytes with the final zero and returns the length of the
// whole text.
size_t ccom_explain(ccom_comm_t *comm, const ccom_collective_t *collective, char *text,
                    size_t size);
// Writes the flight recorder of this rank (the last 1,000 operations) to a file, as JSON; to
// ccom-RANK-PID.json if `path` is a folder. After a failure each rank does so by itself where
// CCOM_DUMP_PATH says: in a folder, which is made if it is missing, or, of a path FILE.json, in
// FILE-RANK-PID.json, so that no rank overwrites the file of another.
ccom_status_t ccom_dump(ccom_comm_t *comm, const char *path);

size_t ccom_type_size(ccom_type_t type);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
