// SPDX-License-Identifier: Apache-2.0
// All-reduces on trn1.32xlarge nodes, planned by the library and simulated.
#ifndef TESTS_BENCH_CCOM_TRN1_H
#define TESTS_BENCH_CCOM_TRN1_H

#include <algorithm>
#include <cstdio>
#include <optional>

#include "ccom/plan/planner.h"
#include "ccom/simulator/simulator.h"

namespace neuron::bench {

inline constexpr uint32_t kChannels = 8;  // one for each NIC of a node

// One rank per chip.
inline ccom::Group trn1_chips(uint32_t chips) {
  ccom::NodeProfile node = *ccom::Topology::profile("trn1.32xlarge");
  node.ranks_per_chip = 1;
  ccom::Group group{{}, ccom::Topology(node, (chips + node.chips - 1) / node.chips)};
  for (ccom::Rank rank = 0; rank < chips; ++rank) {
    group.places.push_back(group.topology.place(rank));
  }
  return group;
}

struct Reduction {
  ccom_algorithm_t algorithm = CCOM_RING;
  uint64_t bytes = 0;  // rounded up, so that all parts are equal
  uint32_t window = 1;
  uint32_t channels = kChannels;
  uint32_t segments = 1;
};

inline ccom::Result<ccom::Plan> plan_reduction(const ccom::Group& group, const Reduction& wanted) {
  ccom::Request request;
  request.operation = CCOM_ALL_REDUCE;
  request.type = CCOM_BF16;
  request.algorithm = wanted.algorithm;
  const uint64_t parts = uint64_t{wanted.channels} * wanted.segments * group.ranks();
  request.count = (wanted.bytes / 2 + parts - 1) / parts * parts;
  ccom::CostParameters costs;
  costs.medium = ccom::Medium::kDevice;
  return ccom::Planner(group, costs)
      .plan(request, {wanted.channels, wanted.segments, 0, wanted.window});
}

// Microseconds; says on stderr why there are none.
inline std::optional<double> simulated_us(const ccom::Group& group, const Reduction& wanted,
                                          const ccom::SimulationOptions& options) {
  const auto plan = plan_reduction(group, wanted);
  const auto result =
      plan ? ccom::simulate(group, *plan, options) : ccom::Result<ccom::Simulation>(plan.error());
  if (result) return static_cast<double>(result->time_ps) * 1e-6;
  std::fprintf(stderr, "%s\n", result.error().sentence.c_str());
  return std::nullopt;
}

struct Pipelined {
  double us = 0;
  uint32_t segments = 1;
};

// With the number of segments that the simulator finds best.
inline std::optional<Pipelined> best_pipeline(const ccom::Group& group, Reduction wanted,
                                              const ccom::SimulationOptions& options) {
  std::optional<Pipelined> best;
  wanted.algorithm = CCOM_PIPELINED_TWO_D_RING;
  for (wanted.segments = 1; wanted.segments <= 64; wanted.segments *= 2) {
    const auto us = simulated_us(group, wanted, options);
    if (!us) return std::nullopt;
    if (!best || *us < best->us) best = Pipelined{*us, wanted.segments};
  }
  return best;
}

}  // namespace neuron::bench

#endif
