// SPDX-License-Identifier: Apache-2.0
// Simulates programs whose messages share no resource: each runs until it waits, without a queue of
// events.
//
// Concepts: when every flow has its rate for itself, the time of a step depends only on the times
// of the steps that it waits for. So any order of execution gives the same result, also on several
// threads. A Flow holds a time for each of its last `window` messages: the sender's lane writes the
// arrival, and the receiver's lane replaces it by the return of the credit. Threads: `threads`
// workers, each with its own ranks. Callers: simulate(). Fails: like simulate().
#ifndef CCOM_SIMULATOR_DATAFLOW_H
#define CCOM_SIMULATOR_DATAFLOW_H

#include "ccom/simulator/network.h"
#include "ccom/simulator/survey.h"

namespace neuron::ccom {

Result<Simulation> simulate_dataflow(const Schedule& schedule, const Network& network,
                                     const Survey& survey, uint32_t window,
                                     const SimulationOptions& options);
// About how many bytes a lane takes, besides its program and flows.
uint64_t dataflow_lane_bytes();

}  // namespace neuron::ccom

#endif
