// SPDX-License-Identifier: Apache-2.0
// Profiling: of one model into a file, continuously, and "inspect" sessions with several
// activities.
//
// Options objects are opaque, made and freed by their calls, used by one thread at a time; strings
// are copied. Setters: NRT_INVALID for NULL or an unknown name, NRT_RESOURCE without memory. One
// session of a kind per process.
#ifndef NRT_PROFILE_H
#define NRT_PROFILE_H

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Profiles executions of a model from start to stop into `filename` (truncated); the same name
// pairs the two calls.
NRT_STATUS nrt_profile_start(nrt_model_t *model, const char *filename);
NRT_STATUS nrt_profile_stop(const char *filename);

// Continuous profiling keeps the newest profile of each core in memory. output_dir: default
// ./output.
typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;
NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t **options);
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t *options);
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *options,
                                                         const char *output_dir);

// Start fails while an inspect session with device profiles runs. Save writes what the last model
// on a core left, into <output_dir>/profile_nc_<vnc>_session_<n>.ntff, and goes on; n is the next
// number of which there is no file. Stop writes nothing.
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t *options);
NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t *options);
NRT_STATUS nrt_profile_continuous_stop(void);

// Starts an inspect session as NEURON_RT_INSPECT_* say; stop writes its files below the output
// directory.
NRT_STATUS nrt_inspect_begin(void);
NRT_STATUS nrt_inspect_stop(void);

// Starts a session as *options say, ignoring the environment; NULL: the defaults.
typedef struct nrt_inspect_config nrt_inspect_config_t;
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t *options);

// Defaults: session 1, directory ./output, all activities, cores and event types, inspect off.
NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t **options);
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t *options);
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t *options);

NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t *options, int session_id);
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t *options, const char *output_dir);

// Room of the trace, in events per core; the oldest are overwritten.
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t *options,
                                                              uint64_t sys_trace_max_events_per_nc);

// Which cores and which event types (names of nrt_sys_trace_get_event_types) are traced.
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t *options,
                                                         uint32_t nc_idx, bool enabled);
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(
    nrt_inspect_config_t *options, const char *event_type, bool enabled);

// Whether a session records at all, and whether an execution that fails leaves its profile.
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t *options,
                                                 bool enable_inspect);
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t *options,
                                                         bool enable_inspect_on_fail);

// What the activity device_profile records. The values that newer public headers give these names
// are not published; these are ours, in the order of NEURON_RT_INSPECT_DEVICE_PROFILE. Switches the
// activity off (0) or on; the later of this call and nrt_inspect_config_set_activity holds.
// NRT_INVALID: another value.
typedef enum nrt_inspect_device_profile_mode {
  NRT_INSPECT_DEVICE_PROFILE_MODE_OFF = 0,
  NRT_INSPECT_DEVICE_PROFILE_MODE_MODEL = 1,   // the first execution of each model
  NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION = 2  // one profile of all executions on a core
} nrt_inspect_device_profile_mode_t;
NRT_STATUS nrt_inspect_config_set_inspect_device_profile_mode(
    nrt_inspect_config_t *options, nrt_inspect_device_profile_mode_t mode);

// Activities: system_profile, device_profile, host_memory, cpu_util, and "all" when setting. The
// arrays are copies that the caller frees with nrt_inspect_config_free_activity_types.
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char ***activity_types, size_t *count);
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t *options,
                                                         const char ***activity_types,
                                                         size_t *count);
void nrt_inspect_config_free_activity_types(const char **activity_types, size_t count);
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t *options, const char *activity_type,
                                           bool enabled);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_PROFILE_H
