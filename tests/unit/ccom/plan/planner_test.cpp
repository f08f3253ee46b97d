// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "ccom/plan/calibration.h"
#include "ccom/request/layout.h"
#include "tests/support/setting.h"
#include "tests/unit/ccom/plan/groups.h"

namespace neuron::ccom {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

// CCOM_ALGORITHM for the length of a test.
struct Wish : test::Setting {
  explicit Wish(const char* value) : Setting("CCOM_ALGORITHM", value) {}
};

CostParameters device() {
  CostParameters costs;
  costs.medium = Medium::kDevice;
  return costs;
}

TEST(Planner, ReadsAllInputsDirectlyInHostMemory) {
  const Planner planner(make_group({8}), {});
  for (const uint64_t count : {1024u, 65536u, 4u << 20}) {
    const auto plan = planner.plan(make_request(CCOM_ALL_REDUCE, 8, count));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->algorithm, CCOM_MESH) << count;
  }
  const auto small = planner.plan(make_request(CCOM_ALL_REDUCE, 8, 2));
  ASSERT_TRUE(small);
  EXPECT_EQ(small->algorithm, CCOM_ONE_STEP_MESH);
}

TEST(Planner, SendsFewerMessagesWhereEachOneCostsAProcessor) {
  Planner planner(make_group({2, 2}), {});
  const Request request = make_request(CCOM_ALL_REDUCE, 4, 2);
  // A network device sends to both ranks of the other host at once.
  EXPECT_EQ(planner.plan(request)->algorithm, CCOM_ONE_STEP_MESH);
  planner.price(network_costs({}, "efa on rdmap0s31"));
  EXPECT_EQ(planner.plan(request)->algorithm, CCOM_ONE_STEP_MESH);
  planner.price(network_costs({}, "stream on 10.0.0.1"));
  EXPECT_EQ(planner.plan(request)->algorithm, CCOM_NODE_LEADERS) << planner.explain(request);
  // Within one host nothing changes.
  Planner near(make_group({4}), {});
  const uint64_t before = near.predict(CCOM_MESH, request);
  near.price(network_costs({}, "stream on 10.0.0.1"));
  EXPECT_EQ(near.predict(CCOM_MESH, request), before);
}

// A ring has a message to another host in each of its steps, however few of its ranks send them.
TEST(Planner, TakesNoFlatRingForFewBytesBetweenHosts) {
  for (const std::vector<uint32_t>& nodes : {std::vector<uint32_t>{2, 2}, {2, 2, 2, 2}}) {
    Planner planner(make_group(nodes), {});
    planner.price(network_costs({}, "stream on 10.0.0.1"));
    const Request request = make_request(CCOM_ALL_GATHER, planner.group().ranks(), 64);
    const uint64_t least = planner.plan(request)->predicted_ps;
    for (const ccom_algorithm_t ring : {CCOM_RING, CCOM_BIDIRECTIONAL_RING}) {
      EXPECT_GT(planner.predict(ring, request), 3 * least / 2) << planner.explain(request);
    }
  }
}

// What is taken between hosts whose messages go through the sockets of the kernel.
ccom_algorithm_t taken_by_stream(const std::vector<uint32_t>& nodes, ccom_operation_t operation,
                                 uint64_t count) {
  Planner planner(make_group(nodes), {});
  planner.price(network_costs({}, "stream on 10.0.0.1"));
  return planner.plan(make_request(operation, planner.group().ranks(), count))->algorithm;
}

// Each round of recursive doubling sends the vector once for each rank of a host.
TEST(Planner, LetsOneRankOfAHostSendFewBytesAndAllRanksMany) {
  for (const std::vector<uint32_t>& nodes :
       {std::vector<uint32_t>{2, 2}, {2, 2, 2, 2}, {8, 8, 8}, {3, 5}}) {
    const auto taken = [&](uint64_t count) {
      return taken_by_stream(nodes, CCOM_ALL_REDUCE, count);
    };
    EXPECT_EQ(taken(2), CCOM_NODE_LEADERS);
    EXPECT_EQ(taken(1024), CCOM_NODE_LEADERS);
    EXPECT_NE(taken(4 << 20), CCOM_NODE_LEADERS);
  }
}

TEST(Planner, HandsBlocksOnWithinAHostWhereMessagesCostMoreThanTheirBytes) {
  const auto taken = [](const std::vector<uint32_t>& nodes, uint64_t count) {
    return taken_by_stream(nodes, CCOM_ALL_TO_ALL, count);
  };
  EXPECT_EQ(taken({2, 2}, 256), CCOM_TWO_LEVEL);
  EXPECT_EQ(taken({2, 2}, 1 << 20), CCOM_MESH);
  EXPECT_EQ(taken({32, 32}, 256), CCOM_TWO_LEVEL);
}

TEST(Planner, GathersFewBytesThroughOneRankOfEachHost) {
  for (const std::vector<uint32_t>& nodes : {std::vector<uint32_t>{2, 2}, {2, 2, 2, 2}, {8, 8}}) {
    const auto taken = [&](uint64_t count) {
      return taken_by_stream(nodes, CCOM_ALL_GATHER, count);
    };
    EXPECT_EQ(taken(256), CCOM_NODE_LEADERS);
    EXPECT_EQ(taken(1024), CCOM_NODE_LEADERS);
    EXPECT_NE(taken(4 << 20), CCOM_NODE_LEADERS);
  }
  // Hosts are numbered by somebody else: the first rank may be on the second one.
  Group turned = make_group({2, 2});
  for (Place& place : turned.places) place.node = 1 - place.node;
  Request request = make_request(CCOM_ALL_GATHER, 4, 256);
  request.algorithm = CCOM_NODE_LEADERS;
  EXPECT_TRUE(Planner(turned, {}).plan(request));
  // Blocks of a node that do not lie together would be a message each.
  Planner uneven(make_group({3, 5}), {});
  uneven.price(network_costs({}, "stream on 10.0.0.1"));
  EXPECT_NE(uneven.plan(make_request(CCOM_ALL_GATHER, 8, 256))->algorithm, CCOM_NODE_LEADERS);
}

TEST(Planner, LeavesTheFlatRingForLargeGroupsOnDevices) {
  const Planner planner(torus_group(32), device());
  const auto plan = planner.plan(make_request(CCOM_ALL_REDUCE, 512, 16 << 20));
  ASSERT_TRUE(plan);
  EXPECT_THAT((std::set<int>{CCOM_PIPELINED_TWO_D_RING, CCOM_TWO_D_RING, CCOM_HIERARCHICAL}),
              Contains(plan->algorithm))
      << planner.explain(plan->request);
}

// A CC core counts the arrivals from 96 others.
TEST(Planner, TakesAnAlgorithmWithFewPeersWhereACcCoreCountsArrivalsOfFewerThanAMeshHas) {
  const auto taken = [](const std::vector<uint32_t>& nodes, ccom_operation_t operation) {
    const Planner planner(make_group(nodes, 8), {});
    return planner.device_default(make_request(operation, planner.group().ranks(), 1024));
  };
  EXPECT_EQ(taken({97}, CCOM_ALL_REDUCE), CCOM_MESH);
  EXPECT_EQ(taken({98}, CCOM_ALL_REDUCE), CCOM_RECURSIVE);
  EXPECT_EQ(taken({128}, CCOM_REDUCE), CCOM_RECURSIVE);
  EXPECT_EQ(taken({33, 33, 33, 33}, CCOM_ALL_REDUCE), CCOM_HIERARCHICAL);
  EXPECT_EQ(taken({96, 96}, CCOM_REDUCE_SCATTER), CCOM_HIERARCHICAL) << "95 and 1";
  EXPECT_EQ(taken({97, 97}, CCOM_ALL_REDUCE), CCOM_RECURSIVE) << "96 and 1";
  EXPECT_EQ(taken({128, 128}, CCOM_ALL_REDUCE), CCOM_RECURSIVE) << "127 of its own node";
  EXPECT_EQ(taken({100, 28}, CCOM_ALL_REDUCE), CCOM_RECURSIVE) << "the nodes are uneven";
  EXPECT_EQ(taken({128}, CCOM_ALL_GATHER), CCOM_ALGORITHM_AUTO) << "it adds nothing";
}

TEST(Planner, AddsNodeAfterNodeOnDevicesWhereThatGivesTheBitsOfTheMeshWithFewerMessages) {
  CostParameters costs;
  costs.medium = Medium::kDevice;
  const auto taken = [&](const std::vector<uint32_t>& nodes, const auto& change) {
    const Planner planner(make_group(nodes, 2), costs);
    Request request = make_request(CCOM_ALL_REDUCE, planner.group().ranks(), 4096);
    change(request);
    return planner.device_default(request);
  };
  const auto nothing = [](Request&) {};
  EXPECT_EQ(taken({4, 4}, nothing), CCOM_NODE_CHAIN);
  EXPECT_EQ(taken({4, 4}, [](Request& r) { r.type = CCOM_INT64; }), CCOM_NODE_CHAIN);
  EXPECT_EQ(taken({4, 4}, [](Request& r) { r.type = CCOM_BF16; }), CCOM_MESH)
      << "the sum of a node would be rounded";
  EXPECT_EQ(taken({4, 4}, [](Request& r) { r.reduction = CCOM_AVERAGE; }), CCOM_MESH);
  EXPECT_EQ(taken({4, 4}, [](Request& r) { r.operation = CCOM_REDUCE; }), CCOM_MESH);
  EXPECT_EQ(taken({8}, nothing), CCOM_MESH);
  EXPECT_EQ(taken({4, 4, 4}, nothing), CCOM_MESH) << "the second would wait for the first";
  EXPECT_EQ(taken({5, 3}, nothing), CCOM_MESH) << "the nodes are uneven";
  const Wish empty("");
  EXPECT_EQ(taken({4, 4}, nothing), CCOM_NODE_CHAIN) << "an empty wish is none";
  const Wish named("ring");
  EXPECT_EQ(taken({4, 4}, nothing), CCOM_ALGORITHM_AUTO) << "the planner obeys it";
}

TEST(Planner, AddsInTheOrderOfTheRanksWhereNodesHaveThemInAnother) {
  CostParameters costs;
  costs.medium = Medium::kDevice;
  Group mixed = make_group({4, 4}, 2);
  std::swap(mixed.places[1], mixed.places[6]);
  EXPECT_EQ(Planner(mixed, costs).device_default(make_request(CCOM_ALL_REDUCE, 8, 4096)), CCOM_MESH)
      << "ranks 1 and 6 are on each other's node";
}

TEST(Planner, ObeysTheCallerAndSaysWhatItCannotDo) {
  const Planner planner(make_group({4}), {});
  Request request = make_request(CCOM_ALL_TO_ALL, 4, 8);
  request.algorithm = CCOM_BRUCK;
  const auto plan = planner.plan(request);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->algorithm, CCOM_BRUCK);
  request.algorithm = CCOM_TWO_LEVEL;
  const auto refused = planner.plan(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, CCOM_UNSUPPORTED);
  EXPECT_THAT(refused.error().sentence, AllOf(HasSubstr("two_level cannot do all_to_all"),
                                              HasSubstr("all ranks are on one node"),
                                              HasSubstr("these can: mesh, pairwise, bruck")));
}

TEST(Planner, ObeysTheEnvironmentWhereItCan) {
  const Planner planner(make_group({4}), {});
  const Wish wish("Ring");
  EXPECT_EQ(planner.plan(make_request(CCOM_ALL_REDUCE, 4, 8))->algorithm, CCOM_RING);
  EXPECT_NE(planner.plan(make_request(CCOM_ALL_TO_ALL, 4, 8))->algorithm, CCOM_RING);
}

TEST(Planner, TakesWishesByOperation) {
  const Planner planner(make_group({4}), {});
  const Wish wish("ALL_REDUCE=tree;broadcast=ring");
  EXPECT_EQ(planner.plan(make_request(CCOM_ALL_REDUCE, 4, 8))->algorithm, CCOM_TREE);
  EXPECT_EQ(planner.plan(make_request(CCOM_BROADCAST, 4, 8))->algorithm, CCOM_RING);
  Request request = make_request(CCOM_ALL_REDUCE, 4, 8);
  request.algorithm = CCOM_MESH;  // the caller's word is the last
  EXPECT_EQ(planner.plan(request)->algorithm, CCOM_MESH);
}

TEST(Planner, NamesAWishThatDoesNotExist) {
  const Planner planner(make_group({4}), {});
  {
    const Wish wish("wring");
    const auto plan = planner.plan(make_request(CCOM_ALL_REDUCE, 4, 8));
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().sentence, AllOf(HasSubstr("\"wring\""), HasSubstr("kangaring")));
  }
  const Wish wish("all_reduce=bruck");
  EXPECT_EQ(planner.plan(make_request(CCOM_ALL_REDUCE, 4, 8)).error().status, CCOM_UNSUPPORTED);
}

TEST(Planner, ExplainsEveryAlgorithm) {
  const Planner planner(make_group({3, 2}), {});
  const std::string text = planner.explain(make_request(CCOM_ALL_REDUCE, 5, 1000));
  for (int i = 1; i < CCOM_ALGORITHM_COUNT; ++i) {
    EXPECT_THAT(text, HasSubstr(algorithm_name(static_cast<ccom_algorithm_t>(i))));
  }
  EXPECT_THAT(text, AllOf(HasSubstr("<- chosen"), HasSubstr("between 2 and 3"),
                          HasSubstr("cannot: it does not do all_reduce")));
}

TEST(Planner, RefusesHostileRequestsWithTheArgument) {
  const Planner planner(make_group({4}), {});
  const auto sentence = [&](const Request& request) {
    const auto plan = planner.plan(request);
    EXPECT_FALSE(plan);
    return plan ? "" : plan.error().sentence;
  };
  Request request = make_request(CCOM_BROADCAST, 4, 8);
  request.root = 4;
  EXPECT_THAT(sentence(request), HasSubstr("root is rank 4"));
  request = make_request(CCOM_ALL_GATHER, 4, ~uint64_t{0} / 2);
  EXPECT_THAT(sentence(request), HasSubstr("at most"));
  request = make_request(CCOM_ALL_GATHER_V, 4, 8);
  request.counts.pop_back();
  EXPECT_THAT(sentence(request), HasSubstr("3 counts"));
  request = make_request(CCOM_ALL_GATHER_V, 4, 8);
  request.displacements[2] = request.displacements[1];
  EXPECT_THAT(sentence(request), HasSubstr("overlaps"));
  request = make_request(CCOM_ALL_TO_ALL_V, 4, 8);
  request.send_counts[3] = ~uint64_t{0};
  EXPECT_THAT(sentence(request), HasSubstr("all_to_all_v"));
  request = make_request(CCOM_PERMUTE, 4, 8);
  request.pairs = {{0, 1}, {2, 1}};
  EXPECT_THAT(sentence(request), HasSubstr("2 -> 1"));
  request.pairs = {{0, 4}};
  EXPECT_THAT(sentence(request), HasSubstr("0 -> 4"));
  request = make_request(CCOM_ALL_REDUCE, 4, 8);
  request.type = static_cast<ccom_type_t>(CCOM_TYPE_COUNT + 1);
  EXPECT_THAT(sentence(request), HasSubstr("type 15"));
}

// The steps that a period is about: not copies within a rank, and not reductions of nothing.
std::vector<Step> symmetric_steps(const Schedule& schedule, Rank rank, uint32_t channel) {
  std::vector<Step> steps;
  const auto program = schedule.program(rank, channel);
  for (Step step; program->next(step);) {
    const bool local = step.kind == StepKind::kCopy || step.kind == StepKind::kReduce;
    if (!local) steps.push_back(step);
  }
  return steps;
}

void expect_period(const Schedule& schedule, uint32_t width, const std::string& what) {
  const uint32_t ranks = schedule.ranks(), period = schedule.period();
  for (Rank rank = 0; rank < ranks; rank += 7) {
    for (uint32_t channel = 0; channel < schedule.channels(); ++channel) {
      const auto one = symmetric_steps(schedule, rank, channel);
      const auto other = symmetric_steps(schedule, (rank + period) % ranks, channel);
      ASSERT_EQ(one.size(), other.size()) << what;
      for (size_t i = 0; i < one.size(); ++i) {
        const Step &a = one[i], &b = other[i];
        ASSERT_EQ(a.kind, b.kind) << what;
        const uint64_t least = std::min(a.bytes, b.bytes), most = std::max(a.bytes, b.bytes);
        ASSERT_LE(most - least, width) << what;
        if (a.kind == StepKind::kSend || a.kind == StepKind::kReceive) {
          ASSERT_EQ((a.peer + period) % ranks, b.peer) << what;
        }
        if (a.kind == StepKind::kWait) {
          ASSERT_EQ(a.position, b.position) << what;
        }
      }
    }
  }
}

// Every claim of symmetry, step by step, with vectors that the ranks divide and others.
// A proof of one list of pairs is none of another.
TEST(Planner, ProvesTheScheduleOfEachListOfPairs) {
  const Planner planner(make_group({4}), {});
  const auto proved = [&](const Request& request) {
    const auto plan = planner.plan(request);
    EXPECT_TRUE(plan) << plan.error().sentence;
    return planner.proved();
  };
  Request permute = make_request(CCOM_PERMUTE, 4, 5000);
  permute.pairs = {{0, 1}, {1, 0}};
  EXPECT_EQ(proved(permute), 1u);
  EXPECT_EQ(proved(permute), 1u) << "once is enough";
  permute.pairs = {{0, 1}, {1, 2}, {2, 0}};
  EXPECT_EQ(proved(permute), 2u);
}

TEST(Planner, SchedulesClaimOnlyPeriodsThatHold) {
  NodeProfile pairs = torus_group(1).topology.node();
  pairs.ranks_per_chip = 2;
  Group of_pairs{{}, Topology(pairs, 2)};
  for (Rank rank = 0; rank < 64; ++rank) of_pairs.places.push_back(of_pairs.topology.place(rank));
  std::set<ccom_algorithm_t> periodic;
  for (const Group& group : {torus_group(4), of_pairs}) {
    const Planner planner(group, device());
    for (const auto operation : {CCOM_ALL_REDUCE, CCOM_ALL_GATHER, CCOM_REDUCE_SCATTER,
                                 CCOM_ALL_TO_ALL, CCOM_BARRIER, CCOM_BROADCAST, CCOM_GATHER}) {
      for (const uint64_t count : {64u * 8 * 4, 1001u, 3u}) {
        Request request = make_request(operation, 64, operation == CCOM_BARRIER ? 0 : count);
        for (const ccom_algorithm_t algorithm : planner.candidates(request)) {
          request.algorithm = algorithm;
          const auto plan = planner.plan(request);
          ASSERT_TRUE(plan) << plan.error().sentence;
          if (plan->schedule->period() == 0) continue;
          periodic.insert(algorithm);
          expect_period(*plan->schedule, element_bytes(request.type), plan->why);
        }
      }
    }
  }
  EXPECT_EQ(periodic,
            (std::set<ccom_algorithm_t>{
                CCOM_RING, CCOM_BIDIRECTIONAL_RING, CCOM_TWO_D_RING, CCOM_PIPELINED_TWO_D_RING,
                CCOM_MESH, CCOM_ONE_STEP_MESH, CCOM_HIERARCHICAL, CCOM_PAIRWISE, CCOM_BRUCK,
                CCOM_TWO_LEVEL, CCOM_KANGARING, CCOM_RECURSIVE}));  // recursive: the barrier
}

TEST(RingSchedule, UsesLinksWithinNodesAndEveryNicBetweenThem) {
  const Group group = torus_group(4);
  Request request = make_request(CCOM_ALL_REDUCE, 64, 64 * 8);
  request.algorithm = CCOM_RING;
  const auto plan = Planner(group, device()).plan(request);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->schedule->channels(), 8u);
  std::set<uint32_t> leaving, entering;
  for (uint32_t channel = 0; channel < 8; ++channel) {
    for (Rank rank = 0; rank < 64; ++rank) {
      Step step;
      ASSERT_TRUE(plan->schedule->program(rank, channel)->next(step));
      ASSERT_EQ(step.kind, StepKind::kSend);
      const Place from = group.places[rank], to = group.places[step.peer];
      if (from.node != to.node) {
        leaving.insert(from.chip / 2);
        entering.insert(to.chip / 2);
        continue;
      }
      const uint32_t row = from.chip / 4, column = from.chip % 4;
      const uint32_t rows = (to.chip / 4 + 4 - row) % 4, columns = (to.chip % 4 + 4 - column) % 4;
      EXPECT_TRUE((rows % 2 == 1 && columns == 0) || (rows == 0 && columns % 2 == 1))
          << from.chip << " to " << to.chip;
    }
  }
  EXPECT_EQ(leaving.size(), 8u);
  EXPECT_EQ(entering.size(), 8u);
}

TEST(RingSchedule, GoesFlatWhereAPipelineWouldNotPay) {
  const Planner planner(torus_group(2), device());
  Request request = make_request(CCOM_ALL_REDUCE, 32, 16);
  request.algorithm = CCOM_PIPELINED_TWO_D_RING;
  const uint64_t pipelined = planner.predict(CCOM_PIPELINED_TWO_D_RING, request);
  EXPECT_LE(pipelined, planner.predict(CCOM_RING, request));
  EXPECT_LE(pipelined, planner.predict(CCOM_TWO_D_RING, request));
  const auto plan = planner.plan(request);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->schedule->channels(), 8u);  // no stages
}

}  // namespace
}  // namespace neuron::ccom
