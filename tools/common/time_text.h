// SPDX-License-Identifier: Apache-2.0
//
// Moments as text. Callers: operator tools. Thread-safe: local time reads the zone of the process.
// Cannot fail.
#ifndef TOOLS_COMMON_TIME_TEXT_H
#define TOOLS_COMMON_TIME_TEXT_H

#include <chrono>
#include <string>

namespace neuron::tools {

std::string utc_text(std::chrono::system_clock::time_point when);    // 2026-11-21T14:02:11.250Z
std::string local_text(std::chrono::system_clock::time_point when);  // 2026-11-21 15:02:11

}  // namespace neuron::tools

#endif
