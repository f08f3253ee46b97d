// SPDX-License-Identifier: Apache-2.0
// The predicted time of an algorithm in closed form, and the number of segments that minimises it.
//
// README.md of this folder has the formulas. Callers: the planner. Thread-safe. Cannot fail.
#ifndef CCOM_PLAN_COST_H
#define CCOM_PLAN_COST_H

#include "ccom/plan/places.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

// The channels, window and segments of `parameters` must be set.
uint64_t predict(ccom_algorithm_t algorithm, const Request& request, const Group& group,
                 const Places& places, const CostParameters& costs, const Parameters& parameters);

// The best number of segments for pipelined algorithms; 1 for the others, and where one is best.
uint32_t best_segments(ccom_algorithm_t algorithm, const Request& request, const Group& group,
                       const Places& places, const CostParameters& costs,
                       const Parameters& parameters);

}  // namespace neuron::ccom

#endif
