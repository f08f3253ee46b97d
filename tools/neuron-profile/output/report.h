// SPDX-License-Identifier: Apache-2.0
//
// A profile for people: what limits the execution, time by engine, the instructions that cost most.
// Callers: neuron-profile. Fails as the profile does.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_REPORT_H
#define TOOLS_NEURON_PROFILE_OUTPUT_REPORT_H

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
// What show-session -j prints.
std::string session_json(const Profile& profile);
std::string session_text(const Profile& profile);
// What a reader has to know of a profile that lacks something; empty if it is whole.
std::string warnings(const Profile& profile);

}  // namespace neuron::profile

#endif
