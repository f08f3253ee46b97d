// SPDX-License-Identifier: Apache-2.0
// Makes a node profile from a driver's facts about chips and their neighbours.
//
// Concepts: the driver knows numbers of chips, generation and links, but no rates. Rates come from
// the built-in profile of the same generation; if its graph is the same, rings come from it, too. A
// part of a host (some chips of sixteen) keeps the links that both ends have. Callers: driver.cpp,
// tests. Thread-safe: functions of their arguments. Fails: CCOM_UNSUPPORTED for a generation that
// no profile has, CCOM_INVALID for neighbours that contradict each other.
#ifndef CCOM_TOPOLOGY_FACTS_H
#define CCOM_TOPOLOGY_FACTS_H

#include <cstdint>
#include <vector>

#include "ccom/topology/topology.h"

namespace neuron::ccom {

struct ChipFacts {
  uint32_t number = 0;               // the driver's
  uint32_t generation = 2;           // 2 trn1 and inf2, 3 trn2, 4 trn3
  std::vector<uint32_t> neighbours;  // numbers, in the order of ports; may name absent chips
};

Result<NodeProfile> profile_of_chips(const std::vector<ChipFacts>& chips, uint32_t nics);

}  // namespace neuron::ccom

#endif
