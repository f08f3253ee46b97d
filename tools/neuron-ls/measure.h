// SPDX-License-Identifier: Apache-2.0
//
// Measures the bandwidth of links with nccom-test: messages between both ends of a link, in both
// directions at once, one link after the other, on the first core of each device.
// Callers: main() with --measure. One thread; starts a process and waits for it, at most
// `seconds`. Fails with a sentence: cores that are held, a program that is not there.
#ifndef TOOLS_NEURON_LS_MEASURE_H
#define TOOLS_NEURON_LS_MEASURE_H

#include <string>
#include <vector>

#include "tools/neuron-ls/view/matrix.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::ls {

bool measure_links(const telemetry::Snapshot& snapshot, unsigned seconds,
                   std::vector<Measured>& measured, std::string& error);

}  // namespace neuron::ls

#endif
