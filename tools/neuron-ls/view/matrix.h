// SPDX-License-Identifier: Apache-2.0
//
// The path from every device to every other: which link, how many links, how fast. Callers:
// neuron-ls --matrix. Thread-safe: values. Cannot fail.
#ifndef TOOLS_NEURON_LS_VIEW_MATRIX_H
#define TOOLS_NEURON_LS_VIEW_MATRIX_H

#include <string>
#include <vector>

#include "tools/common/format.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::ls {

struct Measured {
  unsigned from = 0, to = 0;  // devices
  double bytes_per_second = 0;
};

struct Path {
  unsigned from = 0, to = 0;
  unsigned hops = 0;  // working links on a shortest path; 0 to itself or without a path
  bool reachable = false;
  const telemetry::Link* link = nullptr;  // the direct one; null over several
};

// The path of every pair, in order of devices.
std::vector<Path> paths(const telemetry::Snapshot& snapshot);

// Rows and columns of devices, then network devices, and the meaning of the signs.
std::string format_matrix(const telemetry::Snapshot& snapshot,
                          const std::vector<Measured>& measured, const tools::Style& style);
// A record for each pair.
tools::Records matrix_records(const telemetry::Snapshot& snapshot,
                              const std::vector<Measured>& measured);

}  // namespace neuron::ls

#endif
