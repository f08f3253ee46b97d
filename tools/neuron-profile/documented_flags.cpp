// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/documented_flags.h"

namespace neuron::profile {

const std::vector<DocumentedFlag> kCaptureFlags = {
    {"--enable-dge-notifs", nullptr,
     "descriptors that an engine generates are always recorded, one by one"},
    {"--single-io", nullptr, "every input and output has a tensor of its own"},
    {"--single-io-threshold", "BYTES", "every input and output has a tensor of its own"},
    {"--io-from", "WHERE", "tensors are always the runtime's: zeros, or what the files have"},
    {"--systrace-event-filter", "EVENT",
     "capture records no system trace; inspect does, with NEURON_RT_INSPECT_EVENT_FILTER_TYPE"},
};

const std::vector<DocumentedFlag> kViewFlags = {
    {"--disable-ui", nullptr, "view starts no server and opens no window"},
    {"--port", "PORT", "view starts no server"},
    {"--ingest-only", nullptr, "view starts no server, so it always ends when all is written"},
    {"--force", nullptr, "view reads the profile each time and replaces what it wrote before"},
    {"--ignore-event-trace", nullptr,
     "all events are in one file, and the time to read it is that of its size"},
    {"--ignore-dma-trace", nullptr,
     "all events are in one file, and the time to read it is that of its size"},
    {"--enable-memory-tracker", nullptr,
     "a session samples the memory of the host always, and that of devices never"},
    {"--framework-source-root", "FOLDER", "lines are shown by file and number, without their text"},
    {"--nki-source-root", "FOLDER", "lines are shown by file and number, without their text"},
    {"--terminology", "WHICH", "names of engines and memories are those of the schema"},
    {"-F", "KEY=VALUE", "no view has features that can be switched"},
    {"--system-trace-primary-group", "FIELDS", "tables of a session have rows and no groups"},
    {"--system-trace-secondary-group", "FIELDS", "tables of a session have rows and no groups"},
};

void DocumentedFlags::declare(tools::Command& command, const std::vector<DocumentedFlag>& flags) {
  for (const DocumentedFlag& flag : flags) {
    const std::string description = std::string("changes nothing here: ") + flag.why;
    if (flag.value == nullptr) {
      declared_.push_back({flag, command.flag(flag.name, flags_.emplace_back(false), description)});
      continue;
    }
    tools::Option option = command.option(flag.name, values_.emplace_back(), description);
    declared_.push_back({flag, option.value_name(flag.value).repeatable()});
  }
}

std::string DocumentedFlags::sentences() const {
  std::string text;
  for (const Declared& one : declared_) {
    if (!one.option.given()) continue;
    text += std::string(one.flag.name) + " changes nothing here: " + one.flag.why + ".\n";
  }
  return text;
}

}  // namespace neuron::profile
