// SPDX-License-Identifier: Apache-2.0
// Simulates programs event by event in the order of (time, sequence), for resources on which
// messages of several flows queue.
//
// Concepts: a lane (one channel of one rank) has at most one event, the time at which it resumes.
// From the moment it is sent, a message occupies the resources of its route one after the other.
// The message that is sent first is first on each of them, since links buffer. Threads: one.
// Callers: simulate(); tests compare it with the dataflow engine. Fails: like simulate().
#ifndef CCOM_SIMULATOR_EVENTS_H
#define CCOM_SIMULATOR_EVENTS_H

#include "ccom/simulator/network.h"
#include "ccom/simulator/survey.h"

namespace neuron::ccom {

Result<Simulation> simulate_events(const Schedule& schedule, const Network& network,
                                   const Survey& survey, uint32_t window,
                                   const SimulationOptions& options);
// About how many bytes a lane takes, besides its program and flows.
uint64_t event_lane_bytes();

}  // namespace neuron::ccom

#endif
