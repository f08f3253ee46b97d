// SPDX-License-Identifier: Apache-2.0
//
// What an inspect session records, and where it goes.
// Callers: nrt_inspect_*. Values. Fails: NRT_INVALID for a variable that cannot be read.
#ifndef RUNTIME_PROFILE_INSPECT_SETTINGS_H
#define RUNTIME_PROFILE_INSPECT_SETTINGS_H

#include <array>
#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/observe/system_trace.h"

namespace neuron::runtime {

enum class Activity : uint8_t { kSystemProfile, kDeviceProfile, kHostMemory, kCpuUtilisation };
inline constexpr std::array<const char*, 4> kActivityNames = {"system_profile", "device_profile",
                                                              "host_memory", "cpu_util"};

struct InspectSettings {
  int session_id = 1;
  std::string output_dir = "./output";
  bool enabled = false;
  // An execution that fails leaves its device profile, whatever else is recorded.
  bool on_fail = false;
  // True: one device profile for all executions of a model; false: for its first one.
  bool whole_session = false;
  SystemTraceSettings trace;
  std::bitset<kActivityNames.size()> activities = std::bitset<kActivityNames.size()>().set();

  // What the environment names that does not exist: sentences for the log, once it is set up.
  std::vector<std::string> notices;

  bool has(Activity activity) const { return activities.test(static_cast<size_t>(activity)); }
  // False: there is no activity of that name. "all" is all of them.
  bool set_activity(std::string_view name, bool on);
  // From NEURON_RT_INSPECT_*.
  static Result<InspectSettings> from_environment();
};

// For a name that SystemTraceSettings::enable() does not know: a sentence with the nearest one, or
// all.
Error unknown_event_type(std::string_view name);

}  // namespace neuron::runtime

#endif
