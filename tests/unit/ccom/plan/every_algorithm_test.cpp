// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/ccom/plan/groups.h"

namespace neuron::ccom {
namespace {

// Plans and checks every operation with every algorithm that says it can.
void check_all(const Group& group, const std::vector<uint64_t>& counts,
               const Parameters& parameters = {}, Medium medium = Medium::kHostMemory) {
  CostParameters costs;
  costs.medium = medium;
  const Planner planner(group, costs);
  for (int operation = 0; operation < CCOM_OPERATION_COUNT; ++operation) {
    for (const uint64_t count : counts) {
      for (const bool in_place : {false, true}) {
        Request request = make_request(static_cast<ccom_operation_t>(operation), group.ranks(),
                                       count, static_cast<uint32_t>(count), in_place);
        for (const ccom_algorithm_t algorithm : planner.candidates(request)) {
          request.algorithm = algorithm;
          const auto plan = planner.plan(request, parameters);
          ASSERT_TRUE(plan) << plan.error().sentence;
          const auto good = check_schedule(*plan->schedule, request, 4);
          ASSERT_TRUE(good) << algorithm_name(algorithm) << " " << operation_name(request.operation)
                            << " of " << count << " elements, " << group.ranks() << " ranks"
                            << (in_place ? ", in place: " : ": ") << good.error().sentence;
        }
      }
    }
  }
}

TEST(EveryAlgorithm, ServesOneToEightRanksOfOneNode) {
  for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
    SCOPED_TRACE(ranks);
    check_all(make_group({ranks}), {0, 1, 37, 2051});
  }
}

TEST(EveryAlgorithm, ServesNineToTwelveRanksOfOneNode) {
  for (uint32_t ranks = 9; ranks <= 12; ++ranks) {
    SCOPED_TRACE(ranks);
    check_all(make_group({ranks}), {64});
  }
}

TEST(EveryAlgorithm, ServesThirteenToSeventeenRanksOfOneNode) {
  for (uint32_t ranks = 13; ranks <= 17; ++ranks) {
    SCOPED_TRACE(ranks);
    check_all(make_group({ranks}), {64});
  }
}

TEST(EveryAlgorithm, ServesManyRanksWithManyElements) { check_all(make_group({17}), {2100}); }

TEST(EveryAlgorithm, ServesEvenNodes) {
  check_all(make_group({2, 2}), {0, 3, 41});
  check_all(make_group({4, 4, 4}), {50});
  check_all(make_group({1, 1, 1}), {50});
  check_all(make_group({3, 3, 3, 3, 3}), {64});
}

TEST(EveryAlgorithm, ServesUnevenNodes) {
  check_all(make_group({5, 2, 7}), {1, 45});
  check_all(make_group({1, 4}), {9});
}

TEST(EveryAlgorithm, ServesPairsOfRanksOnChips) {
  check_all(make_group({4}, 2), {30});
  check_all(make_group({6, 6}, 2), {30});
  check_all(make_group({4, 8}, 2), {30});
}

TEST(EveryAlgorithm, ServesSeveralChannelsSegmentsAndChunks) {
  Parameters parameters;
  parameters.channels = 3;
  parameters.segments = 4;
  parameters.chunk_bytes = 64;
  check_all(make_group({4, 4}), {300}, parameters);
  check_all(make_group({6}), {100}, parameters);
  check_all(make_group({1, 1, 1}), {5}, parameters);
}

TEST(EveryAlgorithm, ServesChipsWithSeveralPairsOfRanks) {
  check_all(make_group({8}, 4), {30});
  check_all(make_group({4, 8}, 4), {30});
}

TEST(EveryAlgorithm, FollowsTheCyclesOfDevices) {
  NodeProfile profile;
  profile.chips = 4;
  profile.ranks_per_chip = 2;
  profile.nics = 2;
  profile.rings = {{0, 1, 3, 2}};
  Group group{{}, Topology(profile, 2)};
  for (Rank rank = 0; rank < 16; ++rank) group.places.push_back(group.topology.place(rank));
  check_all(group, {100}, {}, Medium::kDevice);
  group.places.resize(5);  // a part of one node
  check_all(group, {100}, {}, Medium::kDevice);
}

TEST(EveryAlgorithm, ServesRanksThatAreNotInTheOrderOfTheirNodes) {
  Group group = make_group({3, 3, 3});
  for (uint32_t i = 0; i < 9; ++i) group.places[i] = {i % 3, i / 3, 0, 0};
  check_all(group, {40});
}

}  // namespace
}  // namespace neuron::ccom
