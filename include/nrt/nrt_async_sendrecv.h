// SPDX-License-Identifier: Apache-2.0
// Tensor transfer between two cores, also of two hosts, driven by the host.
//
// Order: nrt_init; nrt_async_sendrecv_init; connect on one side, accept on the other; test_comm
// until done; send and receive; test_request until done; flush; nrt_async_sendrecv_close;
// nrt_close. Off unless NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED is 1.
//
// Both sides are this runtime's: the messages on the network are its own. Core n of a host listens to
// TCP port NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT (45645) plus n. A message may be shorter than what
// the receiver asked for, also empty; a longer one fails on both sides with NRT_INVALID and moves
// nothing. A request is done on both sides when the bytes lie in the receiver's tensor. Requests of a
// connection are answered in their order. A peer that is gone ends all of them with NRT_FAILURE.
// NRT_TIMEOUT: the peer did not come within NEURON_OPEN_COLLECTIVES_TIMEOUT seconds (60).
//
// lnc is the absolute number of a virtual core of the host, not the number inside this process.
// Thread-safe: every function, but one request is tested by one thread at a time. Communicators and
// requests belong to the library; close ends them all.
#ifndef NRT_ASYNC_SENDRECV_H
#define NRT_ASYNC_SENDRECV_H

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct nrt_async_sendrecv_comm nrt_async_sendrecv_comm_t;
typedef struct nrt_async_sendrecv_request nrt_async_sendrecv_request_t;

// Limits: communicators per core, and requests in flight per communicator.
NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int *num);
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int *num);

// Prepares a core of this process; once, until it is closed. NRT_FAILURE: already done, or a failed
// close left something behind.
NRT_STATUS nrt_async_sendrecv_init(int lnc);

// Ends it. NRT_FAILURE: a communicator was not connected or a request not finished; they are dead
// all the same.
NRT_STATUS nrt_async_sendrecv_close(int lnc);

// Begins a connection to, or the acceptance of one from, core peer_lnc of host peer_ip. Does not
// wait: ask test_comm. NRT_RESOURCE: too many communicators.
NRT_STATUS nrt_async_sendrecv_connect(const char *peer_ip, int peer_lnc, int lnc,
                                      nrt_async_sendrecv_comm_t **send_comm);
NRT_STATUS nrt_async_sendrecv_accept(const char *peer_ip, int peer_lnc, int lnc,
                                     nrt_async_sendrecv_comm_t **recv_comm);

// Whether the connection stands. NRT_INVALID_HANDLE, NRT_TIMEOUT, NRT_FAILURE: it never will.
NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t *comm, bool *done);

// Sends or receives bytes of a tensor, which stays untouched by others until the request is done.
// NRT_RESOURCE: too many requests in flight.
NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t *send_comm,
                                          nrt_async_sendrecv_request_t **request);
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t *recv_comm,
                                          nrt_async_sendrecv_request_t **request);

// Whether a request is done, and how many bytes moved. After done the request must not be tested
// again.
NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t *request, bool *done,
                                           size_t *size);

// Makes received data visible to executions on the core.
NRT_STATUS nrt_async_sendrecv_flush(int lnc);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_ASYNC_SENDRECV_H
