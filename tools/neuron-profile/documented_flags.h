// SPDX-License-Identifier: Apache-2.0
//
// Options of the original that change nothing here. They are accepted, since scripts give them, and
// each says on standard error why it changes nothing: none is ignored silently.
// Callers: main() of neuron-profile. One thread. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_DOCUMENTED_FLAGS_H
#define TOOLS_NEURON_PROFILE_DOCUMENTED_FLAGS_H

#include <deque>
#include <string>
#include <vector>

#include "tools/common/command_line.h"

namespace neuron::profile {

// An option, or a flag if it has no name for its value.
struct DocumentedFlag {
  const char* name;
  const char* value;
  const char* why;  // it changes nothing: a sentence without a full stop
};

class DocumentedFlags {
 public:
  // Declares those of a command, which the manual then lists with their reasons.
  void declare(tools::Command& command, const std::vector<DocumentedFlag>& flags);
  // "--port changes nothing here: view starts no server.", a line for each that was given.
  std::string sentences() const;

 private:
  struct Declared {
    DocumentedFlag flag;
    tools::Option option;
  };
  // The addresses stay, as those who read the arguments write there.
  std::deque<bool> flags_;
  std::deque<std::vector<std::string>> values_;
  std::vector<Declared> declared_;
};

extern const std::vector<DocumentedFlag> kCaptureFlags, kViewFlags;

}  // namespace neuron::profile

#endif
