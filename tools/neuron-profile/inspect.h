// SPDX-License-Identifier: Apache-2.0
//
// Runs a command with the variables that make the runtime record an inspect session.
// Callers: main() of neuron-profile. One thread. Fails with the status of env(1): 127 for a command
// that is not there, 126 for one that cannot be run; 1 if the folder cannot take a record.
#ifndef TOOLS_NEURON_PROFILE_INSPECT_H
#define TOOLS_NEURON_PROFILE_INSPECT_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::profile {

struct InspectWishes {
  std::string folder;
  uint64_t most_events = 0;              // of a core; 0: what the runtime does by itself
  bool system = false, devices = false;  // neither: both
  std::vector<std::string> command;
};

// Becomes the command, so it returns only if that fails: the status to exit with.
int inspect(const char* program, const InspectWishes& wishes);

// The arguments with "--" in front of the command that inspect runs: what stands behind its name is
// the command's own.
std::vector<char*> with_command_apart(int argc, char** argv);

}  // namespace neuron::profile

#endif
