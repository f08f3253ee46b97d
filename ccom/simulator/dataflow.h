// SPDX-License-Identifier: Apache-2.0
// Simulates programs whose messages share nothing: each runs until it waits, without any queue of
// events.
//
// Concepts: when every flow has its rate for itself, the time of a step depends only on the times
// of the steps that it waits for. So any order of execution gives the same result, also on several
// threads. A Flow holds the times at which its last `window` messages arrive or their credits are
// back: one lane writes a time, the other one replaces it. Threads: `threads` workers, each with
// its own ranks. Callers: simulate(). Fails: as simulate().
#ifndef CCOM_SIMULATOR_DATAFLOW_H
#define CCOM_SIMULATOR_DATAFLOW_H

#include "ccom/simulator/network.h"
#include "ccom/simulator/survey.h"

namespace neuron::ccom {

Result<Simulation> simulate_dataflow(const Schedule& schedule, const Network& network,
                                     const Survey& survey, uint32_t window,
                                     const SimulationOptions& options);

}  // namespace neuron::ccom

#endif
