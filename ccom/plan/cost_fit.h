// SPDX-License-Identifier: Apache-2.0
// Fits prices so that the cost model predicts measured times.
//
// Callers: nccom-test --calibrate, tests. Thread-safe: functions of their arguments. A fit takes
// about a second for a hundred observations. Fails: CCOM_INVALID when there are too few
// observations.
#ifndef CCOM_PLAN_COST_FIT_H
#define CCOM_PLAN_COST_FIT_H

#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

// The measured time of a collective of the group.
struct Observation {
  ccom_algorithm_t algorithm = CCOM_RING;
  Request request;
  double seconds = 0;
};

struct CostFit {
  CostParameters costs;  // 0: the observations do not determine this price
  double error = 0;      // median of predicted / measured or its inverse, the larger, less 1
  double before = 0;     // the same with the built-in prices
};

Result<CostFit> fit_costs(const Group& group, Medium medium,
                          const std::vector<Observation>& observations);

}  // namespace neuron::ccom

#endif
