// SPDX-License-Identifier: Apache-2.0
//
// The options and commands of a program as plain values, and the texts made from them: the manual
// page and the completions of three shells. Callers: command_line.cpp. Thread-safe: values.
// Cannot fail.
#ifndef TOOLS_COMMON_OPTION_TABLE_H
#define TOOLS_COMMON_OPTION_TABLE_H

#include <string>
#include <vector>

#include "tools/common/manual.h"

namespace neuron::tools {

struct OptionEntry {
  std::vector<std::string> names;    // "-w", "--wide"; of a positional argument: empty
  std::string positional;            // "FILE"; else empty
  std::string value;                 // name of its value, empty for a flag
  std::vector<std::string> choices;  // all values there are, if that is known
  std::string description;
  std::string standard;  // default, empty if none is shown
  bool required = false;
  bool repeatable = false;
  bool is_path = false;
};

struct CommandEntry {
  std::string name;  // of the program, or of a command below it
  std::string description;
  std::vector<OptionEntry> options;
  std::vector<CommandEntry> commands;
};

std::string manual_page(const CommandEntry& program, const Manual& manual);
std::string bash_completion(const CommandEntry& program);
std::string zsh_completion(const CommandEntry& program);
std::string fish_completion(const CommandEntry& program);

}  // namespace neuron::tools

#endif
