// SPDX-License-Identifier: Apache-2.0
// Reads the programs before they are simulated. It finds how many flows share each resource, and
// the positions of a channel that other channels wait for.
//
// Callers: simulate(). Of ranks that stand for others, it reads one of each kind. Threads: one.
// Fails: like Routes.
#ifndef CCOM_SIMULATOR_SURVEY_H
#define CCOM_SIMULATOR_SURVEY_H

#include <cstdint>
#include <vector>

#include "ccom/simulator/network.h"

namespace neuron::ccom {

struct Survey {
  std::vector<uint32_t> flows;               // by typical resource
  std::vector<std::vector<uint64_t>> waits;  // positions by rank and channel, ascending
  uint32_t channels = 1;

  const std::vector<uint64_t>& waits_for(const Network& network, Rank rank,
                                         uint32_t channel) const {
    return waits[uint64_t{rank % network.symmetry()} * channels + channel];
  }
};

Result<Survey> survey(const Schedule& schedule, const Network& network);

}  // namespace neuron::ccom

#endif
