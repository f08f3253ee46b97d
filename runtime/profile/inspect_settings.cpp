// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/inspect_settings.h"

#include <sstream>

#include "runtime/base/environment.h"

namespace neuron::runtime {
namespace {

constexpr uint64_t kMostEvents = 1u << 30;

// "hardware,^nc_exec_running": what is named is on; if the first one is behind a ^, all others are.
Result<void> read_types(SystemTraceSettings& trace) {
  const std::string text = environment_text("NEURON_RT_INSPECT_EVENT_FILTER_TYPE");
  if (text.empty()) return {};
  if (text.front() != '^') trace.events.reset();
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (trace.enable(word, true)) continue;
    return fail(NRT_INVALID,
                "NEURON_RT_INSPECT_EVENT_FILTER_TYPE is '{}', and '{}' is no event type; "
                "nrt_sys_trace_get_event_types() lists them; hardware, software and ^name are "
                "allowed too",
                text, word);
  }
  return {};
}

}  // namespace

bool InspectSettings::set_activity(std::string_view name, bool on) {
  bool found = name == "all";
  if (found) on ? activities.set() : activities.reset();
  for (size_t n = 0; n < kActivityNames.size(); ++n) {
    if (name != kActivityNames[n]) continue;
    activities.set(n, on);
    found = true;
  }
  return found;
}

Result<InspectSettings> InspectSettings::from_environment() {
  InspectSettings settings;
  NEURON_TRY(enabled, environment_boolean("NEURON_RT_INSPECT_ENABLE", false));
  settings.enabled = enabled;
  NEURON_TRY(on_fail, environment_boolean("NEURON_RT_INSPECT_ON_FAIL", false));
  settings.on_fail = on_fail;
  if (const std::string dir = environment_text("NEURON_RT_INSPECT_OUTPUT_DIR"); !dir.empty()) {
    settings.output_dir = dir;
  }
  NEURON_TRY(system, environment_boolean("NEURON_RT_INSPECT_SYSTEM_PROFILE", true));
  settings.set_activity("system_profile", system);
  NEURON_TRY(device, environment_choice("NEURON_RT_INSPECT_DEVICE_PROFILE", 0,
                                        {"0", "1", "model", "session"}));
  settings.set_activity("device_profile", device != 0);
  settings.whole_session = device == 3;
  NEURON_TRY(cpu, environment_boolean("NEURON_RT_INSPECT_CPU_UTIL", true));
  settings.set_activity("cpu_util", cpu);
  NEURON_TRY(memory, environment_boolean("NEURON_RT_INSPECT_HOST_MEMORY", true));
  settings.set_activity("host_memory", memory);
  NEURON_TRY(cores, environment_ranges("NEURON_RT_INSPECT_EVENT_FILTER_NC",
                                       SystemTraceSettings::kMostCores));
  if (!cores.empty()) {
    settings.trace.cores.reset();
    for (const uint32_t core : cores) settings.trace.cores.set(core);
  }
  NEURON_TRY(events, environment_unsigned("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC",
                                          settings.trace.events_per_core, 1, kMostEvents));
  settings.trace.events_per_core = events;
  NEURON_CHECK(read_types(settings.trace));
  return settings;
}

}  // namespace neuron::runtime
