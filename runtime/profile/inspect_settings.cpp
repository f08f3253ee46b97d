// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/inspect_settings.h"

#include <sstream>

#include "driver/base/nearest_name.h"
#include "runtime/base/environment.h"

namespace neuron::runtime {
namespace {

constexpr uint64_t kMostEvents = 1u << 30;

std::vector<std::string_view> event_names() {
  std::vector<std::string_view> names = {"all", "hardware", "software"};
  for (const TraceEventName& event : trace_event_names()) names.emplace_back(event.name);
  for (const AbsentEventName& event : absent_event_names()) names.emplace_back(event.name);
  return names;
}

// "hardware, ^nc_exec_running": what is named is on; if the first one is behind a ^, all others
// are. A name that nobody knows costs a warning and not the program: recipes have those of other
// versions.
void read_types(SystemTraceSettings& trace, std::vector<std::string>& notices) {
  constexpr const char* kVariable = "NEURON_RT_INSPECT_EVENT_FILTER_TYPE";
  constexpr std::string_view kBlanks = " \t";
  const std::string text = environment_text(kVariable);
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return;
  if (text[first] != '^') trace.events.reset();
  bool all_known = true;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.find_first_not_of(kBlanks) == std::string::npos || trace.enable(word, true)) continue;
    all_known = false;
    notices.push_back(format("{} is '{}': {}; the rest of it is used", kVariable, text,
                             unknown_event_type(word).sentence));
  }
  if (trace.events.none() && all_known) {
    notices.push_back(
        format("{} is '{}', and this runtime records none of these events; "
               "nrt_sys_trace_get_event_types() lists those that it records",
               kVariable, text));
  }
}

}  // namespace

Error unknown_event_type(std::string_view name) {
  const std::vector<std::string_view> names = event_names();
  if (const std::string_view nearest = base::nearest_name(name, names); !nearest.empty()) {
    return fail(NRT_INVALID, "there is no event type '{}'; is '{}' meant?", name, nearest);
  }
  std::string all;
  for (const std::string_view known : names) all += format("{}{}", all.empty() ? "" : ", ", known);
  return fail(NRT_INVALID,
              "there is no event type '{}'; there are {}, and each of these behind a ^, which "
              "turns the meaning around",
              name, all);
}

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
  read_types(settings.trace, settings.notices);
  return settings;
}

}  // namespace neuron::runtime
