// SPDX-License-Identifier: Apache-2.0
// Says before a simulation what it will take: steps and memory.
//
// It runs the programs of a few ranks, which takes less than a second, and takes them for all.
// Callers: nccom-test, which refuses what does not fit. Thread-safe: a function of its arguments.
// Fails: like Network::make.
#ifndef CCOM_SIMULATOR_ESTIMATE_H
#define CCOM_SIMULATOR_ESTIMATE_H

#include <cstdint>

#include "ccom/simulator/simulator.h"

namespace neuron::ccom {

struct SimulationEstimate {
  uint32_t ranks = 0;  // simulated: of one period, if the schedule is folded
  bool folded = false;
  double steps = 0;         // of all simulated ranks
  double memory_bytes = 0;  // of lanes, programs, flows and resources
};

Result<SimulationEstimate> estimate(const Group& group, const Plan& plan,
                                    const SimulationOptions& options = {});

}  // namespace neuron::ccom

#endif
