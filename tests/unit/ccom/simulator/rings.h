// SPDX-License-Identifier: Apache-2.0
// Groups with one rank per chip of trn1.32xlarge nodes, and all-reduces on them.
#ifndef TESTS_UNIT_CCOM_SIMULATOR_RINGS_H
#define TESTS_UNIT_CCOM_SIMULATOR_RINGS_H

#include "ccom/plan/places.h"
#include "ccom/plan/ring_schedule.h"
#include "ccom/simulator/simulator.h"

namespace neuron::ccom {

inline Group chips_of(const std::string& profile, uint32_t chips) {
  NodeProfile node = *Topology::profile(profile);
  node.ranks_per_chip = 1;
  const uint32_t nodes = (chips + node.chips - 1) / node.chips;
  Group group{{}, Topology(node, nodes)};
  for (Rank rank = 0; rank < chips; ++rank) group.places.push_back(group.topology.place(rank));
  return group;
}

inline Plan ring_plan(const Group& group, const RingShape& shape, uint64_t bytes, uint32_t window) {
  Request request;
  request.operation = CCOM_ALL_REDUCE;
  request.type = CCOM_FP32;
  const uint64_t parts = uint64_t{shape.channels} * shape.segments * shape.slices * group.ranks();
  request.count = (bytes / 4 + parts - 1) / parts * parts;
  Plan plan;
  plan.schedule = make_ring(request, group, Places(group), shape);
  plan.request = request;
  plan.window = window;
  return plan;
}

inline SimulationOptions divided() {
  SimulationOptions options;
  options.sharing = Sharing::kDivided;
  return options;
}

inline Result<Simulation> simulate_ring(uint32_t chips, const RingShape& shape, uint64_t bytes,
                                        uint32_t window, const SimulationOptions& options,
                                        const std::string& profile = "trn1.32xlarge") {
  const Group group = chips_of(profile, chips);
  return simulate(group, ring_plan(group, shape, bytes, window), options);
}

}  // namespace neuron::ccom

#endif
