// SPDX-License-Identifier: Apache-2.0
// Groups and requests for tests of planning.
#ifndef TESTS_UNIT_CCOM_PLAN_GROUPS_H
#define TESTS_UNIT_CCOM_PLAN_GROUPS_H

#include <algorithm>
#include <vector>

#include "ccom/plan/planner.h"
#include "ccom/proof/checker.h"
#include "ccom/request/names.h"

namespace neuron::ccom {

// Nodes with these numbers of ranks, two to a chip if asked.
inline Group make_group(const std::vector<uint32_t>& nodes, uint32_t ranks_per_chip = 1) {
  NodeProfile profile;
  profile.name = "test";
  profile.ranks_per_chip = ranks_per_chip;
  const uint32_t most = *std::max_element(nodes.begin(), nodes.end());
  profile.chips = (most + ranks_per_chip - 1) / ranks_per_chip;
  Group group{{}, Topology(profile, static_cast<uint32_t>(nodes.size()))};
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    for (uint32_t i = 0; i < nodes[node]; ++i) {
      group.places.push_back({node, i / ranks_per_chip, i % ranks_per_chip, 0});
    }
  }
  return group;
}

// A 4 x 4 torus with its two cycles and eight NICs, one rank a chip.
inline Group torus_group(uint32_t nodes) {
  NodeProfile profile;
  profile.name = "torus";
  profile.chips = 16;
  profile.ranks_per_chip = 1;
  profile.nics = 8;
  profile.rings = {{0, 1, 2, 3, 7, 4, 5, 6, 10, 11, 8, 9, 13, 14, 15, 12},
                   {0, 3, 15, 11, 7, 6, 2, 14, 10, 9, 5, 1, 13, 12, 8, 4}};
  profile.link = {48e9, 1'500'000};
  profile.nic = {12.5e9, 15'000'000};
  Group group{{}, Topology(profile, nodes)};
  for (uint32_t node = 0; node < nodes; ++node) {
    for (uint32_t chip = 0; chip < 16; ++chip) group.places.push_back({node, chip, 0, 0});
  }
  return group;
}

// A request of every kind; the variable ones get uneven blocks with gaps, from `seed`.
inline Request make_request(ccom_operation_t operation, uint32_t ranks, uint64_t count,
                            uint32_t root = 0, bool in_place = false, uint32_t seed = 1) {
  Request request;
  request.operation = operation;
  request.type = CCOM_FP32;
  request.count = count;
  request.root = root % ranks;
  request.in_place = in_place;
  const auto next = [&] {
    seed = seed * 1664525 + 1013904223;
    return seed >> 16;
  };
  if (operation == CCOM_ALL_GATHER_V || operation == CCOM_REDUCE_SCATTER_V) {
    request.count = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < ranks; ++i) {
      at += next() % 3;
      request.displacements.push_back(at);
      request.counts.push_back(count == 0 ? 0 : next() % (2 * count));
      at += request.counts.back();
    }
  }
  if (operation == CCOM_ALL_TO_ALL_V) {
    request.count = 0;
    request.receive_displacements.resize(uint64_t{ranks} * ranks);
    std::vector<uint64_t> arrives(ranks);
    for (uint32_t i = 0; i < ranks; ++i) {
      uint64_t leaves = 0;
      for (uint32_t j = 0; j < ranks; ++j) {
        request.send_counts.push_back(count == 0 ? 0 : next() % (2 * count));
        request.send_displacements.push_back(leaves);
        leaves += request.send_counts.back();
        request.receive_displacements[uint64_t{j} * ranks + i] = arrives[j];
        arrives[j] += request.send_counts.back();
      }
    }
  }
  if (operation == CCOM_SEND_RECEIVE) request.pairs = {{request.root, (request.root + 1) % ranks}};
  if (operation == CCOM_PERMUTE) {
    for (uint32_t i = 0; i < ranks; ++i) {
      if (i % 5 != 4) request.pairs.push_back({i, (i + 1 + root) % ranks});
    }
  }
  return request;
}

}  // namespace neuron::ccom

#endif
