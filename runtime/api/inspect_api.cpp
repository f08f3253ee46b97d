// SPDX-License-Identifier: Apache-2.0
//
// nrt_inspect_*: sessions of several activities.
#include "nrt/nrt_profile.h"
#include "runtime/api/guard.h"
#include "runtime/api/name_list.h"
#include "runtime/api/options_object.h"
#include "runtime/profile/inspection.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

using Options = OptionsObjects<InspectSettings>;

// A setter of one option: set(InspectSettings&).
template <class Set>
NRT_STATUS change(const char* name, nrt_inspect_config_t* options, Set&& set) {
  return unguarded_state(name, [&]() -> Result<void> {
    NEURON_TRY(values, Options::of(options));
    return set(*values);
  });
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_inspect_begin(void) {
  return guarded("nrt_inspect_begin", [](Session& session) -> Result<void> {
    NEURON_TRY(settings, InspectSettings::from_environment());
    return Inspection::of(session).begin(session, settings);
  });
}

NRT_EXPORT NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t* options) {
  return guarded("nrt_inspect_begin_with_options", [&](Session& session) -> Result<void> {
    if (options == nullptr) return Inspection::of(session).begin(session, {});
    NEURON_TRY(values, Options::of(options));
    return Inspection::of(session).begin(session, *values);
  });
}

NRT_EXPORT NRT_STATUS nrt_inspect_stop(void) {
  return guarded("nrt_inspect_stop", [](Session& session) -> Result<void> {
    Inspection* inspection = Inspection::existing(session);
    if (inspection == nullptr) return fail(NRT_FAILURE, "no inspect session runs");
    return inspection->stop();
  });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t** options) {
  return unguarded_state("nrt_inspect_config_allocate", [&] { return Options::make(options); });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t* options) {
  return change("nrt_inspect_config_set_defaults", options,
                [](InspectSettings& settings) -> Result<void> {
                  settings = {};
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t* options) {
  return unguarded_state("nrt_inspect_config_free", [&] { return Options::free(options); });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t* options,
                                                        int session_id) {
  return change("nrt_inspect_config_set_session_id", options,
                [&](InspectSettings& settings) -> Result<void> {
                  if (session_id < 0) {
                    return fail(NRT_INVALID, "session_id is {}; it must be 0 or more", session_id);
                  }
                  settings.session_id = session_id;
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t* options,
                                                        const char* output_dir) {
  return change("nrt_inspect_config_set_output_dir", options,
                [&](InspectSettings& settings) -> Result<void> {
                  if (output_dir == nullptr) return null_argument("output_dir");
                  if (*output_dir == '\0') return fail(NRT_INVALID, "output_dir is empty");
                  settings.output_dir = output_dir;
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(
    nrt_inspect_config_t* options, uint64_t sys_trace_max_events_per_nc) {
  return change("nrt_inspect_config_set_sys_trace_max_events_per_nc", options,
                [&](InspectSettings& settings) -> Result<void> {
                  if (sys_trace_max_events_per_nc == 0) {
                    return fail(NRT_INVALID, "a trace needs room for at least 1 event");
                  }
                  settings.trace.events_per_core = sys_trace_max_events_per_nc;
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t* options,
                                                                    uint32_t nc_idx, bool enabled) {
  return change("nrt_inspect_config_set_capture_enabled_for_nc", options,
                [&](InspectSettings& settings) -> Result<void> {
                  if (nc_idx >= SystemTraceSettings::kMostCores) {
                    return fail(NRT_INVALID, "there is no NeuronCore {}; a host has at most {}",
                                nc_idx, SystemTraceSettings::kMostCores);
                  }
                  settings.trace.cores.set(nc_idx, enabled);
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(
    nrt_inspect_config_t* options, const char* event_type, bool enabled) {
  return change("nrt_inspect_config_set_capture_enabled_for_event_type_string", options,
                [&](InspectSettings& settings) -> Result<void> {
                  if (event_type == nullptr) return null_argument("event_type");
                  if (settings.trace.enable(event_type, enabled)) return {};
                  return unknown_event_type(event_type);
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t* options,
                                                            bool enable_inspect) {
  return change("nrt_inspect_config_set_enable_inspect", options,
                [&](InspectSettings& settings) -> Result<void> {
                  settings.enabled = enable_inspect;
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t* options,
                                                                    bool enable_inspect_on_fail) {
  return change("nrt_inspect_config_set_enable_inspect_on_fail", options,
                [&](InspectSettings& settings) -> Result<void> {
                  settings.on_fail = enable_inspect_on_fail;
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_inspect_device_profile_mode(
    nrt_inspect_config_t* options, nrt_inspect_device_profile_mode_t mode) {
  return change("nrt_inspect_config_set_inspect_device_profile_mode", options,
                [&](InspectSettings& settings) -> Result<void> {
                  // A caller in C may hand over any number.
                  const auto number = static_cast<int>(mode);
                  if (number < NRT_INSPECT_DEVICE_PROFILE_MODE_OFF ||
                      number > NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION) {
                    return fail(NRT_INVALID,
                                "mode is {}; expected 0 (off), 1 (model) or 2 (session)", number);
                  }
                  settings.set_activity("device_profile",
                                        mode != NRT_INSPECT_DEVICE_PROFILE_MODE_OFF);
                  settings.whole_session = mode == NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION;
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_get_all_activity_types(const char*** activity_types,
                                                                size_t* count) {
  return unguarded_state("nrt_inspect_config_get_all_activity_types", [&] {
    return give_names({kActivityNames.begin(), kActivityNames.end()}, activity_types, count);
  });
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t* options,
                                                                    const char*** activity_types,
                                                                    size_t* count) {
  return change("nrt_inspect_config_get_enabled_activity_types", options,
                [&](InspectSettings& settings) {
                  std::vector<const char*> names;
                  for (size_t n = 0; n < kActivityNames.size(); ++n) {
                    if (settings.activities.test(n)) names.push_back(kActivityNames[n]);
                  }
                  return give_names(names, activity_types, count);
                });
}

NRT_EXPORT void nrt_inspect_config_free_activity_types(const char** activity_types, size_t count) {
  free_names(activity_types, count);
}

NRT_EXPORT NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t* options,
                                                      const char* activity_type, bool enabled) {
  return change("nrt_inspect_config_set_activity", options,
                [&](InspectSettings& settings) -> Result<void> {
                  if (activity_type == nullptr) return null_argument("activity_type");
                  if (settings.set_activity(activity_type, enabled)) return {};
                  return fail(NRT_INVALID,
                              "there is no activity '{}'; expected system_profile, device_profile, "
                              "host_memory, cpu_util or all",
                              activity_type);
                });
}
