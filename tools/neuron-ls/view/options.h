// SPDX-License-Identifier: Apache-2.0
//
// The options of neuron-ls. Callers: its main(), tests. Thread-safe: values. Fails: conflict()
// returns a sentence about options that exclude each other; CommandLine refuses the rest.
#ifndef TOOLS_NEURON_LS_VIEW_OPTIONS_H
#define TOOLS_NEURON_LS_VIEW_OPTIONS_H

#include <optional>
#include <string>
#include <vector>

#include "tools/common/format.h"
#include "tools/common/terminal.h"
#include "tools/telemetry/source.h"

namespace neuron::ls {

struct Options {
  bool wide = false, all = false, topology = false, json = false;
  bool matrix = false, measure = false, check = false;
  tools::Format format = tools::Format::kText;
  tools::ColorMode color = tools::ColorMode::kAuto;
  std::vector<std::string> query;
  std::optional<double> watch_seconds;
  unsigned count = 0;  // refreshes; 0: until interrupted
  unsigned timeout_ms = 1000;
};

void declare(tools::Command& line, Options& options);

// A sentence if options exclude each other, else empty.
std::string conflict(const Options& options);

telemetry::Wanted wanted_of(const Options& options);

}  // namespace neuron::ls

#endif
