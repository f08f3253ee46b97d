// SPDX-License-Identifier: Apache-2.0
//
// nrt_sys_trace_*, and the older nrt_trace_* over the same trace.
#include <cstring>

#include "nrt/nrt_experimental.h"
#include "nrt/nrt_sys_trace.h"
#include "runtime/api/guard.h"
#include "runtime/api/name_list.h"
#include "runtime/api/options_object.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/profile/inspect_settings.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

struct FetchOptions {
  std::optional<uint32_t> core;
  uint64_t events_per_core = UINT64_MAX;
};
using Config = OptionsObjects<SystemTraceSettings>;
using Fetch = OptionsObjects<FetchOptions>;

// For setters without a status: a wrong argument is told in the log and by nrt_open_last_error().
template <class Object, class Handle, class Set>
NRT_STATUS change(const char* name, Handle* options, Set&& set) {
  return unguarded_state(name, [&]() -> Result<void> {
    NEURON_TRY(values, Object::of(options));
    return set(*values);
  });
}

std::vector<const char*> names_of(const SystemTraceSettings& settings) {
  std::vector<const char*> names;
  for (size_t event = 0; event < kTraceEvents; ++event) {
    if (settings.events.test(event)) names.push_back(trace_event_names()[event].name);
  }
  return names;
}

Result<void> start(Session& session, const SystemTraceSettings& settings) {
  if (session.system_trace.start(settings)) return {};
  return fail(NRT_FAILURE, "a system trace runs already; stop it first");
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t** options) {
  return unguarded_state("nrt_sys_trace_config_allocate", [&] { return Config::make(options); });
}

NRT_EXPORT void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t* options) {
  change<Config>("nrt_sys_trace_config_set_defaults", options,
                 [](SystemTraceSettings& settings) -> Result<void> {
                   settings = {};
                   return {};
                 });
}

NRT_EXPORT void nrt_sys_trace_config_free(nrt_sys_trace_config_t* options) {
  unguarded_state("nrt_sys_trace_config_free", [&] { return Config::free(options); });
}

NRT_EXPORT void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t* options,
                                                           uint64_t max_events_per_nc) {
  change<Config>("nrt_sys_trace_config_set_max_events_per_nc", options,
                 [&](SystemTraceSettings& settings) -> Result<void> {
                   if (max_events_per_nc == 0) {
                     return fail(NRT_INVALID, "a trace needs room for at least 1 event");
                   }
                   settings.events_per_core = max_events_per_nc;
                   return {};
                 });
}

NRT_EXPORT void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t* options,
                                                                uint32_t nc_idx, bool enabled) {
  change<Config>("nrt_sys_trace_config_set_capture_enabled_for_nc", options,
                 [&](SystemTraceSettings& settings) -> Result<void> {
                   if (nc_idx >= SystemTraceSettings::kMostCores) {
                     return fail(NRT_INVALID, "there is no NeuronCore {}; a host has at most {}",
                                 nc_idx, SystemTraceSettings::kMostCores);
                   }
                   settings.cores.set(nc_idx, enabled);
                   return {};
                 });
}

NRT_EXPORT NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(
    nrt_sys_trace_config_t* options, const char* event_type, bool enabled) {
  return change<Config>("nrt_sys_trace_config_set_capture_enabled_for_event_type", options,
                        [&](SystemTraceSettings& settings) -> Result<void> {
                          if (event_type == nullptr) return null_argument("event_type");
                          if (settings.enable(event_type, enabled)) return {};
                          return unknown_event_type(event_type);
                        });
}

NRT_EXPORT NRT_STATUS nrt_sys_trace_get_event_types(const char*** event_types, size_t* count) {
  return unguarded_state("nrt_sys_trace_get_event_types",
                         [&] { return give_names(names_of({}), event_types, count); });
}

NRT_EXPORT void nrt_sys_trace_free_event_types(const char** event_types, size_t count) {
  free_names(event_types, count);
}

NRT_EXPORT NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t* options,
                                                                   const char*** event_types,
                                                                   size_t* count) {
  return change<Config>("nrt_sys_trace_config_get_enabled_event_types", options,
                        [&](SystemTraceSettings& settings) {
                          return give_names(names_of(settings), event_types, count);
                        });
}

NRT_EXPORT NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t* options) {
  return guarded("nrt_sys_trace_start", [&](Session& session) -> Result<void> {
    NEURON_TRY(settings, Config::of(options));
    return start(session, *settings);
  });
}

NRT_EXPORT NRT_STATUS nrt_sys_trace_stop(void) {
  return guarded("nrt_sys_trace_stop", [](Session& session) -> Result<void> {
    if (!session.system_trace.stop()) return fail(NRT_FAILURE, "no system trace runs");
    if (const uint64_t dropped = session.system_trace.dropped(); dropped != 0) {
      log_notice(LogComponent::kNrt,
                 "the system trace lacks {} events, the oldest, because nobody fetched them before "
                 "their core had as many as it keeps; fetch them more often, let "
                 "nrt_sys_trace_config_set_max_events_per_nc() keep more, or record fewer types",
                 dropped);
    }
    return {};
  });
}

NRT_EXPORT NRT_STATUS
nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t** options) {
  return unguarded_state("nrt_sys_trace_fetch_options_allocate",
                         [&] { return Fetch::make(options); });
}

NRT_EXPORT void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t* options) {
  change<Fetch>("nrt_sys_trace_fetch_options_set_defaults", options,
                [](FetchOptions& fetch) -> Result<void> {
                  fetch = {};
                  return {};
                });
}

NRT_EXPORT void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t* options) {
  unguarded_state("nrt_sys_trace_fetch_options_free", [&] { return Fetch::free(options); });
}

NRT_EXPORT void nrt_sys_trace_fetch_options_set_max_events_per_nc(
    nrt_sys_trace_fetch_options_t* options, uint64_t max_events_per_nc) {
  change<Fetch>("nrt_sys_trace_fetch_options_set_max_events_per_nc", options,
                [&](FetchOptions& fetch) -> Result<void> {
                  fetch.events_per_core = max_events_per_nc;
                  return {};
                });
}

NRT_EXPORT void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t* options,
                                                       uint64_t nc_idx) {
  change<Fetch>("nrt_sys_trace_fetch_options_set_nc_idx", options,
                [&](FetchOptions& fetch) -> Result<void> {
                  fetch.core = static_cast<uint32_t>(std::min<uint64_t>(nc_idx, UINT32_MAX));
                  return {};
                });
}

NRT_EXPORT NRT_STATUS nrt_sys_trace_fetch_events(char** buffer, size_t* written_size,
                                                 const nrt_sys_trace_fetch_options_t* options) {
  return guarded("nrt_sys_trace_fetch_events", [&](Session& session) -> Result<void> {
    if (buffer == nullptr) return null_argument("buffer");
    FetchOptions fetch;
    if (options != nullptr) {
      NEURON_TRY(given, Fetch::of(options));
      fetch = *given;
    }
    const std::string text = session.system_trace.take(fetch.core, fetch.events_per_core);
    *buffer = ::strdup(text.c_str());
    if (*buffer == nullptr) {
      return fail(NRT_RESOURCE, "no memory for {} bytes of events", text.size());
    }
    if (written_size != nullptr) *written_size = text.size();
    return {};
  });
}

NRT_EXPORT void nrt_sys_trace_buffer_free(char* buffer) { std::free(buffer); }

NRT_EXPORT NRT_STATUS nrt_trace_start(bool trace_mem) {
  return guarded("nrt_trace_start", [&](Session& session) -> Result<void> {
    SystemTraceSettings settings;
    for (const TraceEvent memory : {TraceEvent::kTensorAllocate, TraceEvent::kTensorFree}) {
      settings.events.set(static_cast<size_t>(memory), trace_mem);
    }
    return start(session, settings);
  });
}

NRT_EXPORT NRT_STATUS nrt_trace_stop(const char* filename) {
  return guarded("nrt_trace_stop", [&](Session& session) -> Result<void> {
    if (filename == nullptr) return null_argument("filename");
    if (!session.system_trace.running()) return fail(NRT_FAILURE, "no trace runs");
    // A file that cannot be written leaves the trace as it is: the caller may name another one.
    NEURON_CHECK(neuron::tools::write_file(filename, {}));
    if (!session.system_trace.stop()) return fail(NRT_FAILURE, "no trace runs");
    const std::string text = session.system_trace.take(std::nullopt, UINT64_MAX) + "\n";
    return neuron::tools::write_file(filename,
                                     {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  });
}
