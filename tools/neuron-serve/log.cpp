// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/log.h"

#include <unistd.h>

namespace neuron::serve {

void log(const std::string& message) {
  std::string line = "neuron-serve: " + message + "\n";
  // A message may quote what a file or a peer said.
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (static_cast<unsigned char>(line[i]) < 0x20 || line[i] == 0x7F) line[i] = ' ';
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace neuron::serve
