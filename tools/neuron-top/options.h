// SPDX-License-Identifier: Apache-2.0
//
// The arguments of neuron-top. Callers: main(). Values. Fails: read_options() returns the status to
// exit with and has written the sentence.
#ifndef TOOLS_NEURON_TOP_OPTIONS_H
#define TOOLS_NEURON_TOP_OPTIONS_H

#include <chrono>
#include <optional>
#include <string>

#include "tools/common/format.h"
#include "tools/neuron-top/terminal.h"

namespace neuron::top {

struct Options {
  tools::Format format = tools::Format::kText;
  bool once = false, ascii = false, no_mouse = false;
  unsigned iterations = 0;  // 0: until it is ended
  std::chrono::milliseconds interval{1000};
  int width = 0, height = 0;  // of --once; 0: those of the terminal
  std::string palette = "standard";
  tools::ColorMode color = tools::ColorMode::kAuto;
  std::string record, replay;

  // True for reports for programs, or for a single picture, instead of a screen.
  bool batch() const { return once || format != tools::Format::kText || iterations != 0; }
};

std::optional<int> read_options(int argc, char** argv, Options& options);

}  // namespace neuron::top

#endif
