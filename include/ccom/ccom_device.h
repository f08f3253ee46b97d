// SPDX-License-Identifier: Apache-2.0
// C interface of libccom.so.1 for the runtime: collectives as programs for collective cores.
//
// The ranks of a collective tell each other their places and buffers through a communicator
// (ccom.h). The runtime then asks for the program of its own rank, copies code and descriptors to
// the device and starts the core. A *stream* is a sequence of collectives on one CC core. Each
// increment of semaphore 0 of that core lets it execute the next collective; after the last it
// begins with the first again. Nothing here touches a device. Threads: any; a program is constant.
// Errors: the status, and a sentence in `error` (at most `error_size` bytes with the final zero;
// may be null).
#ifndef CCOM_CCOM_DEVICE_H
#define CCOM_CCOM_DEVICE_H

#include <ccom/ccom.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CCOM_DEVICE_DMA_ENGINES 16
#define CCOM_DEVICE_CREDIT_COUNTERS 128  // of a CC core
// Semaphores of a CC core that count arrivals: at least one for each member that it receives from.
#define CCOM_DEVICE_ARRIVALS 96

// One member of a collective: where it computes, and device addresses as its own chip sees them.
typedef struct ccom_device_member {
  uint32_t world;  // its rank among all, for sentences
  uint32_t chip;   // routing id
  uint32_t core;   // physical core of the chip
  // 1 + the chip's number among the devices of its host, which says what it is linked with; the
  // routing id does not. 0: not known, and the routing id is taken.
  uint32_t device;
  // Members with one number reach each other's memory by descriptors; the others are met through a
  // proxy (ccom_device_proxy_t).
  uint32_t instance;
  // Nodes of one UltraServer are one instance: its number there, 0 to 3. Else 0.
  uint16_t node;
  // 1 + the number of its counter of credits among the members that reach each other, the same in all
  // collectives of its CC core, at most 128. 0: chip and core give it, which is right within a node.
  uint16_t credit;
  uint64_t cc_core;  // window of the stream's CC core
  uint64_t input;
  uint64_t output;  // equal to input: in place, the smaller of the two at its place in the larger
  uint64_t scratch;
} ccom_device_member_t;

// Where the bytes of a buffer lie on every rank. All 0: in one piece. Else in rows of `row_bytes`,
// `stride` apart (one a partition of SBUF); after `rows` of them the next block of rows follows
// behind the first, in the same places. Buffers in rows are apart, or in place.
typedef struct ccom_device_layout {
  uint64_t row_bytes;  // a multiple of the element
  uint64_t rows;
  uint64_t stride;
} ccom_device_layout_t;

typedef struct ccom_device_collective {
  ccom_operation_t operation;
  ccom_type_t type;
  ccom_reduction_t reduction;
  // Auto: in the order of the ranks for reductions, else the quickest; CCOM_ALGORITHM overrides.
  ccom_algorithm_t algorithm;
  uint32_t root;
  uint32_t rank;  // of this rank in the group
  uint32_t size;  // members
  uint32_t pair_count;
  uint64_t count;  // as in ccom_collective_t
  const ccom_device_member_t *members;
  const ccom_pair_t *pairs;
  // all_gather_v and reduce_scatter_v: `size` of both. all_to_all_v: `size` * `size`, in rows of
  // what a rank sends; receive_displacements in rows of the receivers. Else null.
  const uint64_t *counts;
  const uint64_t *displacements;
  const uint64_t *receive_displacements;
  ccom_device_layout_t input_layout;
  ccom_device_layout_t output_layout;
  const char *name;  // for sentences; null: of the operation
  // Increment aliases on this chip that are written when the collective is done here (0: none), and
  // the values written.
  uint64_t done[2];
  uint32_t done_value[2];
} ccom_device_collective_t;

typedef struct ccom_device_stream {
  size_t size_of;          // sizeof(ccom_device_stream_t)
  size_t collective_size;  // sizeof(ccom_device_collective_t)
  size_t program_size;     // sizeof(ccom_device_program_t)
  uint32_t generation;
  uint32_t chip;
  uint32_t core;
  uint32_t stride;  // between DMA engines
  uint64_t cc_core;
  uint64_t m2s_doorbell;  // tail increment of queue 15 of the core's DMA engine 0
  uint64_t s2m_doorbell;
  uint64_t one;      // address of a word that is 1
  uint16_t engines;  // those of the core's 16 that it may use; as many on every rank
  uint32_t count;
  const ccom_device_collective_t *collectives;
} ccom_device_stream_t;

typedef struct ccom_device_ring {
  const void *m2s;  // 16 bytes each
  const void *s2m;
  uint32_t m2s_count;
  uint32_t s2m_count;
} ccom_device_ring_t;

// A message between this rank and one of another instance, which the proxy carries.
typedef struct ccom_device_message {
  uint32_t sends;       // 1: to the peer, which has all bytes; 0: from it, the place is free
  uint32_t peer;        // its rank among all
  uint32_t collective;  // its number in the stream
  uint16_t channel;     // messages of one peer, direction and channel are in order
  uint16_t semaphore;   // of the CC core, gets 1 when the bytes have arrived, or have been taken
  uint64_t address;     // of the bytes, as this rank's chip sees it
  uint64_t bytes;
} ccom_device_message_t;

// What an instruction does for its collective.
typedef enum ccom_device_action {
  CCOM_DEVICE_NOTHING,  // it waits, or branches
  CCOM_DEVICE_GRANT,    // tells the peer that it may send
  CCOM_DEVICE_SEND,     // begins a transfer to the peer
  CCOM_DEVICE_REDUCE,   // begins a transfer within this rank that combines operands
  CCOM_DEVICE_COPY,     // begins a transfer within this rank
  CCOM_DEVICE_DONE,     // tells this rank's program that the collective is done
  CCOM_DEVICE_OFFER,    // hands a message for the peer, on another instance, to the proxy
  CCOM_DEVICE_EXPECT,   // tells the proxy that a message of the peer has a place
  CCOM_DEVICE_ACTIONS
} ccom_device_action_t;

// What an instruction waits for before that.
typedef enum ccom_device_wait {
  CCOM_DEVICE_NO_WAIT,
  CCOM_DEVICE_WAIT_GO,        // the program begins the collective
  CCOM_DEVICE_WAIT_CREDIT,    // the peer takes data
  CCOM_DEVICE_WAIT_ARRIVAL,   // the peer's data is here
  CCOM_DEVICE_WAIT_TRANSFER,  // a transfer of this rank is done
  CCOM_DEVICE_WAITS
} ccom_device_wait_t;

// One instruction of a program, for profiles.
typedef struct ccom_device_note {
  uint32_t action;      // ccom_device_action_t
  uint32_t wait;        // ccom_device_wait_t; of two waits, that for another rank
  uint32_t collective;  // its number in the stream
  uint32_t peer;        // of the action: its rank among all
  uint32_t wait_peer;   // of the wait: its rank among all
  uint32_t reserved;
  uint64_t bytes;  // that the action writes
} ccom_device_note_t;

// One of the two waits of an instruction, for profiles.
typedef struct ccom_device_waiting {
  uint32_t wait;       // ccom_device_wait_t
  uint32_t peer;       // rank among all that it waits for
  uint32_t semaphore;  // of the CC core
  uint32_t reserved;
  uint64_t bytes;  // that the peer's message brings; of waits for other things 0
} ccom_device_waiting_t;

// What a collective of a stream moves, in bytes.
typedef struct ccom_device_size {
  uint64_t input;   // of this rank
  uint64_t output;  // of this rank
  uint64_t whole;   // of the operation: what bandwidths are counted by
} ccom_device_size_t;

typedef struct ccom_device_program {
  const void *code;  // 128 bytes each; may lie anywhere
  uint32_t instructions;
  ccom_device_ring_t rings[CCOM_DEVICE_DMA_ENGINES];
  uint64_t moved_bytes;  // that the descriptors read
  // In the order in which they become due: the CC core then posts a notification
  // (hw/notification.h, NEURON_NK_NOTIFY) whose first word is the number of the message, counted
  // from 0. It waits for each message before it ends the program.
  const ccom_device_message_t *messages;
  uint32_t message_count;
  // The part of the instance's NICs that a rank has, for model time.
  uint64_t nic_latency_ps;
  double nic_bytes_per_second;
  // How each collective of the stream was planned, one sentence each. The members of a collective
  // must have equal ones: programs of different plans write where the others do not expect it.
  const char *const *plans;
  uint32_t plan_count;
  uint32_t reserved;
  // One for each collective of the stream, for profiles: "all_reduce of 1024 fp32 (add)", and the
  // algorithm.
  const char *const *names;
  const char *const *algorithms;
  const ccom_device_note_t *notes;     // one for each instruction
  const ccom_device_size_t *sizes;     // one for each collective
  const ccom_device_waiting_t *waits;  // two for each instruction
} ccom_device_program_t;

// Bytes of scratch memory that this rank needs for collective `number` of the stream; addresses are
// not used.
ccom_status_t ccom_device_scratch(const ccom_device_stream_t *stream, uint32_t number,
                                  uint64_t *bytes, char *error, size_t error_size);
ccom_status_t ccom_device_compile(const ccom_device_stream_t *stream,
                                  const ccom_device_program_t **program, char *error,
                                  size_t error_size);
// "waits in all_reduce of 1024 fp32 (2 of 5) for data of rank 7"; "" for an instruction that does
// not wait. Returns the length of the whole text.
size_t ccom_device_describe(const ccom_device_program_t *program, uint32_t pc, char *text,
                            size_t size);
void ccom_device_free(const ccom_device_program_t *program);

// Carries the messages of programs between instances over the network.
//
// All ranks of a communicator open a proxy together, and each adds its programs in the same order.
// The proxy reads and writes device memory through addresses of this process. One thread at a time
// calls ccom_device_proxy_poll; it waits for nothing. Opening uses the communicator; later calls do
// not. These functions leave their sentence in ccom_last_error().
typedef struct ccom_device_proxy ccom_device_proxy_t;
typedef struct ccom_device_host {
  size_t size_of;  // sizeof(ccom_device_host_t)
  void *context;
  // The bytes of device memory in this process; null if they cannot be mapped.
  void *(*map)(void *context, uint64_t address, uint64_t bytes);
  // The next notification of the stream's CC core: the number of a message that is due, and its
  // model time. False: there is none.
  bool (*due)(void *context, uint32_t stream, uint32_t *number, uint64_t *time_ps);
  // Adds 1 to a semaphore of the stream's CC core, at a model time; false: the device has failed.
  bool (*signal)(void *context, uint32_t stream, uint32_t semaphore, uint64_t time_ps);
} ccom_device_host_t;
ccom_status_t ccom_device_proxy_open(ccom_comm_t *comm, const ccom_device_host_t *host,
                                     ccom_device_proxy_t **proxy);
// The program stays as long as the proxy. `stream` is below CCOM_MAX_STREAMS. Fails:
// CCOM_UNSUPPORTED for memory that cannot be mapped, CCOM_RESOURCE for memory that the network
// cannot register.
ccom_status_t ccom_device_proxy_add(ccom_device_proxy_t *proxy, uint32_t stream,
                                    const ccom_device_program_t *program);
// Carries what is due. `moved`: something happened; `busy`: messages are under way, or the network
// has not sent all. After a failure, which the sentence explains, nothing moves any more.
ccom_status_t ccom_device_proxy_poll(ccom_device_proxy_t *proxy, bool *moved, bool *busy);
// After this nothing touches device memory. Before ccom_free() of its communicator; null is allowed.
// Waits for up to 5 s until the network has taken what this rank sent, if the job is usable.
void ccom_device_proxy_close(ccom_device_proxy_t *proxy);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
