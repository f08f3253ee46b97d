// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/inspect.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace neuron::profile {
namespace {

// A variable that the user has set stays, unless an option says otherwise.
void set(const char* name, const std::string& value, bool by_option) {
  ::setenv(name, value.c_str(), by_option ? 1 : 0);
}

// The runtime would tell it in its log, and execute all the same.
bool can_record_in(const char* program, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  int reason = error.value();
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) reason = errno;
  if (reason == 0) return true;
  std::fprintf(stderr,
               "%s: nothing can be recorded in the folder '%s': %s; give another one with "
               "--output-dir; the command was not run\n",
               program, folder.c_str(), std::strerror(reason));
  return false;
}

}  // namespace

int inspect(const char* program, const InspectWishes& wishes) {
  if (!can_record_in(program, wishes.folder)) return 1;
  const bool chosen = wishes.system || wishes.devices;
  set("NEURON_RT_INSPECT_ENABLE", "1", true);
  set("NEURON_RT_INSPECT_OUTPUT_DIR", wishes.folder, true);
  set("NEURON_RT_INSPECT_SYSTEM_PROFILE", wishes.system || !chosen ? "1" : "0", chosen);
  set("NEURON_RT_INSPECT_DEVICE_PROFILE", wishes.devices || !chosen ? "1" : "0", chosen);
  if (wishes.most_events != 0) {
    set("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", std::to_string(wishes.most_events), true);
  }
  std::vector<char*> words;
  for (const std::string& word : wishes.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int reason = errno;
  std::fprintf(stderr, "%s: '%s' cannot be run: %s\n", program, words[0], std::strerror(reason));
  return reason == ENOENT ? 127 : 126;
}

std::vector<char*> with_command_apart(int argc, char** argv) {
  constexpr std::string_view kWithValue[] = {"-o", "--output-dir", "-n", "--max-events"};
  static char apart[] = "--";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "inspect") return words;
  int at = 2;
  for (; at < argc && argv[at][0] == '-' && std::string_view(argv[at]) != "--"; ++at) {
    const auto* const end = std::end(kWithValue);
    if (std::find(std::begin(kWithValue), end, std::string_view(argv[at])) != end) ++at;
  }
  if (at < argc && std::string_view(argv[at]) != "--") words.insert(words.begin() + at, apart);
  return words;
}

}  // namespace neuron::profile
