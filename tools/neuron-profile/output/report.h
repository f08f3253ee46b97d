// SPDX-License-Identifier: Apache-2.0
//
// A profile for people: what limits the execution, time by engine, the instructions that cost most.
// Callers: neuron-profile. Fails as the profile does.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_REPORT_H
#define TOOLS_NEURON_PROFILE_OUTPUT_REPORT_H

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/terminal.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// Of one execution of one part.
Result<std::string> report_text(Profile& profile, uint32_t part, size_t execution,
                                const tools::Style& style);
// "total_time 0.0000448": a line for each metric, in the fixed order.
Result<std::string> summary_text(Profile& profile, uint32_t part, size_t execution);
// {"n_<hash>": {"total_time": ..., ...}}
Result<std::string> summary_json(Profile& profile, uint32_t part, size_t execution, bool pretty);
// What show-session prints, piece by piece: a profile may have millions of executions, which count
// from 1 as those of a view do.
using Write = std::function<void(std::string_view)>;
void write_session_json(const Profile& profile, const Write& write);
void write_session_text(const Profile& profile, const Write& write);
// What a reader has to know of a profile that lacks something; empty if it is whole.
struct Notice {
  const char* category;  // of the table Warning
  std::string sentence;
};
std::vector<Notice> notices(const Profile& profile);
// The same as text, a line each.
std::string warnings(const Profile& profile);

}  // namespace neuron::profile

#endif
