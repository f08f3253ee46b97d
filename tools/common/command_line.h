// SPDX-License-Identifier: Apache-2.0
//
// Reading of arguments, alike in all programs. Callers: main() of each. Thread-safe: no state.
// Help goes to stdout with exit status 0, wrong usage to stderr with exit status 2. Every program
// has --help and --version, and writes its own manual page and completions of shells from the same
// tables: --generate man|bash|zsh|fish, which no help mentions, is called by the build.
#ifndef TOOLS_COMMON_COMMAND_LINE_H
#define TOOLS_COMMON_COMMAND_LINE_H

#include <CLI/CLI.hpp>
#include <optional>

#include "tools/common/exit_status.h"
#include "tools/common/manual.h"

namespace neuron::tools {

// Gives the app its description, its footer and --version, then reads the arguments. The status to
// exit with at once; nothing if the program is to go on.
std::optional<int> parse_command_line(CLI::App& app, const Manual& manual, int argc, char** argv);

// The parts of it, for a program that reads a vector of words: help and version of the manual, and
// what --generate WHAT prints (empty: there is no such WHAT).
void describe(CLI::App& app, const Manual& manual);
std::string generate(const CLI::App& app, const Manual& manual, const std::string& what);

}  // namespace neuron::tools

#endif
