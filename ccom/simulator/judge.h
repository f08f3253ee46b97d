// SPDX-License-Identifier: Apache-2.0
// Lets a planner choose by simulating: it asks the prices that the simulator uses.
//
// Callers: nccom-test, tests. Thread-safe: a judge is a function of its arguments. Fails: like
// simulate(), and CCOM_RESOURCE for a plan whose simulation needs more memory than allowed.
#ifndef CCOM_SIMULATOR_JUDGE_H
#define CCOM_SIMULATOR_JUDGE_H

#include <cstdint>

#include "ccom/plan/planner.h"
#include "ccom/simulator/simulator.h"

namespace neuron::ccom {

// `memory`: bytes that one simulation may take; 0: any.
Judge make_judge(SimulationOptions options, uint64_t memory = 0);

}  // namespace neuron::ccom

#endif
