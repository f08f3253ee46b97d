// SPDX-License-Identifier: Apache-2.0
//
// The description of a program beside its options: one table from which --help and the manual page
// are made. Callers: main() of each program, command_line.h. Thread-safe: values, usually
// constants. Cannot fail.
//
// Prose is plain text: an empty line ends a paragraph, a line that begins with two spaces stays as
// it is, `backquotes` are bold, and a paragraph "term :: meaning" is an entry of a list.
#ifndef TOOLS_COMMON_MANUAL_H
#define TOOLS_COMMON_MANUAL_H

#include <string_view>
#include <vector>

namespace neuron::tools {

struct ManualSection {
  std::string_view title;  // "FAULT PLANS"
  std::string_view text;
};

struct ExitStatus {
  int status;
  std::string_view meaning;
};

struct ManualTerm {
  std::string_view name, meaning;
};

struct Manual {
  std::string_view name;         // "neuron-ls"
  std::string_view summary;      // "list Neuron devices": no capital, no full stop
  std::string_view description;  // prose; the summary is not repeated
  std::vector<ManualSection> sections = {};
  std::vector<ExitStatus> exit_statuses = {};
  std::vector<ManualTerm> environment = {};
  std::vector<ManualTerm> examples = {};        // a command and what it does
  std::vector<std::string_view> see_also = {};  // "neuron-ls(1)"
};

// Entries that many manuals share.
inline constexpr ExitStatus kDoneStatus{0, "done"};
inline constexpr ExitStatus kUsageStatus{2, "wrong usage"};
inline constexpr ManualTerm kEmulatorVariable{
    "NEURON_EMULATOR",
    "instance type to emulate within the process (trn1.32xlarge, inf2.xlarge, ...), or unix:PATH, "
    "the socket of a neuron-emulatord; without it, the devices of the kernel module"};
inline constexpr ManualTerm kNoColorVariable{"NO_COLOR", "not empty: no colours"};
inline constexpr ManualTerm kForceColorVariable{
    "CLICOLOR_FORCE", "not empty and not 0: colours even where output is no terminal"};

}  // namespace neuron::tools

#endif
