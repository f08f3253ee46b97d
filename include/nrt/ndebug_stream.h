// SPDX-License-Identifier: Apache-2.0
// Debug stream of a core: events that a running program emits, such as the print of a tensor.
//
// Connect, poll the descriptor, read events one by one, close. One client per core, in the process
// that owns it. A stream is used by one thread at a time. Events before the connection, and beyond
// the buffer (NEURON_RT_DEBUG_STREAM_BUFFER_SIZE), are dropped.
#ifndef NDEBUG_STREAM_H
#define NDEBUG_STREAM_H

#include <stdint.h>

#include "nrt/nrt_status.h"
#include "uapi/neuron_abi.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ndebug_stream_event_type {
  NDEBUG_STREAM_EVENT_TYPE_INVALID = 0,
  NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ = 1,  // ndebug_stream_payload_debug_tensor_read_t
} ndebug_stream_event_type_t;

typedef struct ndebug_stream_event_header {
  uint64_t data_size;  // bytes of the payload
  uint32_t type;       // ndebug_stream_event_type_t
  char reserved[52];
} ndebug_stream_event_header_t;

typedef struct ndebug_stream_payload_debug_tensor_read {
  char prefix[512];  // text given in the program, NUL-terminated
  uint32_t logical_nc_id;
  uint32_t pipe;
  char tensor_dtype[16];     // name, NUL-terminated
  uint64_t tensor_shape[8];  // extents; 0 after the last
  uint64_t tensor_data_size;
  char reserved0[416];
  NEURON_EXTENSION_BEGIN
  char tensor_data[];
  NEURON_EXTENSION_END
} ndebug_stream_payload_debug_tensor_read_t;

// Connects to a core. *stream_fd may be polled and given to the two calls below, nothing else.
// NRT_INVALID: no such core, or it has a client.
NRT_STATUS nrt_debug_client_connect(int logical_nc_idx, int *stream_fd);
void nrt_debug_client_connect_close(int stream_fd);

// Takes one event. *payload is a malloc() block of header->data_size bytes that the caller frees.
// NRT_QUEUE_EMPTY: there is none; never waits.
NRT_STATUS nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t *header,
                                           void **payload);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NDEBUG_STREAM_H
