// SPDX-License-Identifier: Apache-2.0
// All-reduce, all-gather and reduce-scatter by rings: flat, two-dimensional, pipelined.
//
// Callers: planner. Thread-safe: const. Owns the request and the orders that its programs refer
// to. Cannot fail: the planner has checked that the group has the shape.
#ifndef CCOM_PLAN_RING_SCHEDULE_H
#define CCOM_PLAN_RING_SCHEDULE_H

#include <memory>

#include "ccom/plan/places.h"
#include "ccom/request/request.h"
#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

struct RingShape {
  uint32_t channels = 1;
  uint32_t slices = 1;    // messages that a block travels in
  uint32_t segments = 1;  // more than one: the stages run on channels of their own, in a pipeline
  bool two_d = false;     // within the node, between nodes, within the node
  bool both = true;       // half of the channels run in the opposite direction
};

std::shared_ptr<const Schedule> make_ring(const Request& request, const Group& group,
                                          const Places& places, const RingShape& shape);

}  // namespace neuron::ccom

#endif
