// SPDX-License-Identifier: Apache-2.0
// Says which algorithms can do a request for a group, and builds the schedule of one of them.
//
// Callers: the planner. Thread-safe: functions of their arguments. Cannot fail: the caller builds
// nothing that refusal() refuses.
#ifndef CCOM_PLAN_BUILD_H
#define CCOM_PLAN_BUILD_H

#include <memory>
#include <string>

#include "ccom/plan/places.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

// Why the algorithm cannot do the request, as the end of a sentence; empty: it can.
std::string refusal(ccom_algorithm_t algorithm, const Request& request, const Group& group,
                    const Places& places);

struct Choice {
  Parameters parameters;  // none of them 0, but for chunk_bytes
  bool flat = false;      // a pipelined ring for which a flat one is quicker
};
// Fills in what the parameters leave to the planner.
Choice choose(ccom_algorithm_t algorithm, const Request& request, const Group& group,
              const Places& places, const CostParameters& costs, const Parameters& wanted);

std::shared_ptr<const Schedule> build(ccom_algorithm_t algorithm, const Request& request,
                                      const Group& group, const Places& places,
                                      const Choice& choice);

}  // namespace neuron::ccom

#endif
