// SPDX-License-Identifier: Apache-2.0
//
// The exit statuses of operator tools. Scripts rely on them, so statuses are only added.
// Callers: main() of each program, and the table of exit statuses in its manual. Values.
// Programs that judge (nccom-postmortem) or ask a daemon (neuron-emulatorctl) give 3 and above
// meanings of their own, which their manuals name.
#ifndef TOOLS_COMMON_EXIT_STATUS_H
#define TOOLS_COMMON_EXIT_STATUS_H

namespace neuron::tools {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;        // the work failed, or there is nothing to show
inline constexpr int kWrongUsage = 2;    // options, arguments, a configuration file
inline constexpr int kNoPermission = 3;  // devices exist, but this user may not use them
inline constexpr int kBusy = 4;          // held by somebody else, or being reset
inline constexpr int kUnhealthy = 5;     // with --check: what was looked at is not in order

}  // namespace neuron::tools

#endif
