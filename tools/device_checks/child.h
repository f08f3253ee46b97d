// SPDX-License-Identifier: Apache-2.0
//
// A process that does what may hang: its lines, and what became of it.
//
// Concepts: whoever works on a device may hang in it, so that is done by processes that can be
// left. A step that takes longer than its deadline ends the process, which is this program's own.
// kLate is a step that was too long, kOver the end of its time. Callers: the checks, several
// threads, a process each. Owns the process until the call ends. Fails: Ending says how.
#ifndef TOOLS_DEVICE_CHECKS_CHILD_H
#define TOOLS_DEVICE_CHECKS_CHILD_H

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neuron::checks {

struct Ending {
  enum class How { kExited, kSignalled, kLate, kOver, kNotStarted } how = How::kNotStarted;
  int code = 0;        // exit status, signal or errno value
  std::string errors;  // the end of its standard error
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// How long it may take; later than that it is ended.
struct Limits {
  std::chrono::milliseconds step{30000};  // between two lines of its standard output
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
};
Ending run_child(const std::vector<std::string>& command, const Environment& environment,
                 const Limits& limits, const std::function<void(std::string_view)>& on_line);

std::string own_program();
// A program that is installed beside this one.
std::string program_beside(const std::string& name);

}  // namespace neuron::checks

#endif
