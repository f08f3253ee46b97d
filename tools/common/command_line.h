// SPDX-License-Identifier: Apache-2.0
//
// Reading of arguments, alike in all programs. Callers: main() of each. Thread-safe: no state.
// Help goes to stdout with exit status 0, wrong usage to stderr with exit status 2.
#ifndef TOOLS_COMMON_COMMAND_LINE_H_
#define TOOLS_COMMON_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>

namespace neuron::tools {

inline constexpr int kWrongUsage = 2;

// The status to exit with at once; nothing if the program is to go on.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
}

}  // namespace neuron::tools

#endif  // TOOLS_COMMON_COMMAND_LINE_H_
