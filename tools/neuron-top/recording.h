// SPDX-License-Identifier: Apache-2.0
//
// Snapshots in a file, one a line: written while neuron-top runs, shown again by a replay.
//
// Callers: main loop, one thread. Recorder owns its file; a full disk ends the recording with a
// sentence, not the program. Replay keeps the offset of each line and reads one line at a time.
#ifndef TOOLS_NEURON_TOP_RECORDING_H
#define TOOLS_NEURON_TOP_RECORDING_H

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/telemetry/snapshot.h"

namespace neuron::top {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

class Recorder {
 public:
  // Opens the recorder and returns "", or returns the sentence of the error.
  std::string open(const std::string& path);
  // "" unless the recording has just ended; then why.
  std::string add(const telemetry::Snapshot& snapshot);

 private:
  std::string path_;
  File file_;
};

class Replay {
 public:
  std::string open(const std::string& path);
  size_t size() const { return starts_.size(); }
  // The snapshot of a line, counted from 0.
  bool read(size_t index, telemetry::Snapshot& snapshot, std::string& error);

 private:
  std::string path_;
  File file_;
  std::vector<long> starts_;
};

}  // namespace neuron::top

#endif
