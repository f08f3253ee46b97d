// SPDX-License-Identifier: Apache-2.0
// System trace: events of the runtime and the cores, kept in a ring per core and fetched as JSON.
//
// Options objects are opaque and used by one thread at a time; start and fetch copy what they need,
// so that they may be freed right after. One trace per process. Fetching is thread-safe; each event
// is handed out once.
#ifndef NRT_SYS_TRACE_H
#define NRT_SYS_TRACE_H

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;
typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;

// Defaults: all cores, all event types, 1,000,000 events per core.
NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t **options);
void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t *options);
void nrt_sys_trace_config_free(nrt_sys_trace_config_t *options);

// Room per core; when it is used up the oldest events go.
void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t *options,
                                                uint64_t max_events_per_nc);
void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t *options,
                                                     uint32_t nc_idx, bool enabled);

// NRT_INVALID: no event type of that name.
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t *options,
                                                                   const char *event_type,
                                                                   bool enabled);

// Names of all event types, and of those that are switched on. The arrays are copies that the
// caller frees with nrt_sys_trace_free_event_types.
NRT_STATUS nrt_sys_trace_get_event_types(const char ***event_types, size_t *count);
NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t *options,
                                                        const char ***event_types, size_t *count);
void nrt_sys_trace_free_event_types(const char **event_types, size_t count);

NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t *options);
NRT_STATUS nrt_sys_trace_stop(void);

// Defaults: all cores, all events.
NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t **options);
void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t *options);
void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t *options);
void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t *options,
                                                       uint64_t max_events_per_nc);
void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t *options,
                                            uint64_t nc_idx);

// Hands out events as a NUL-terminated JSON text: an object with `events`, an array of objects with
// event_type, phase ("start" or "stop"), tracking_id and data. *written_size: bytes without the
// NUL. The caller frees *buffer with nrt_sys_trace_buffer_free; it may be NULL with a size of 0
// when there are no events. options may be NULL.
NRT_STATUS nrt_sys_trace_fetch_events(char **buffer, size_t *written_size,
                                      const nrt_sys_trace_fetch_options_t *options);
void nrt_sys_trace_buffer_free(char *buffer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_SYS_TRACE_H
