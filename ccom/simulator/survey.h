// SPDX-License-Identifier: Apache-2.0
// What a look through the programs tells before they are simulated: how many flows share each
// resource, and at which positions other channels wait for a channel.
//
// Callers: simulate(). It reads the programs of one rank of each kind only. Threads: one. Fails: as
// routes do.
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
