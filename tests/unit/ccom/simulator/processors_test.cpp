// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/processors.h"

#include <gtest/gtest.h>

#include "tests/unit/ccom/simulator/rings.h"

namespace neuron::ccom {
namespace {

using Given = Processors::Given;

TEST(Processors, ALaneKeepsItsProcessorUntilItIsTaken) {
  Processors processors({0, 0, 0, 1}, 2);
  EXPECT_EQ(processors.acquire(0), Given::kAtOnce);
  EXPECT_EQ(processors.acquire(1), Given::kAtOnce);
  EXPECT_EQ(processors.acquire(2), Given::kLater);
  EXPECT_EQ(processors.acquire(3), Given::kAtOnce);  // another node
  EXPECT_FALSE(processors.holds(2));
  EXPECT_EQ(processors.release(1), 2u);
  EXPECT_TRUE(processors.holds(2));
  EXPECT_EQ(processors.release(0), Processors::kNobody);
}

TEST(Processors, ALaneGoesOnWhereItWasWithoutASwitch) {
  Processors processors({0, 0}, 2);
  EXPECT_EQ(processors.acquire(0), Given::kAtOnce);
  EXPECT_EQ(processors.acquire(1), Given::kAtOnce);
  EXPECT_EQ(processors.release(0), Processors::kNobody);
  EXPECT_EQ(processors.release(1), Processors::kNobody);
  EXPECT_EQ(processors.acquire(1), Given::kAtOnce);
  EXPECT_EQ(processors.acquire(0), Given::kAtOnce);
}

TEST(Processors, AnotherLaneOnAProcessorIsASwitch) {
  Processors processors({0, 0}, 1);
  EXPECT_EQ(processors.acquire(0), Given::kAtOnce);
  EXPECT_EQ(processors.release(0), Processors::kNobody);
  EXPECT_EQ(processors.acquire(1), Given::kAfterASwitch);
}

// One node whose ranks share processors, 5 us from one to another.
Group ranks_of_a_host(uint32_t ranks) {
  NodeProfile node = *Topology::profile("host");
  node.chips = 1;
  node.ranks_per_chip = ranks;
  node.on_chip = {0, 5'000'000};
  Group group{{}, Topology(node, 1)};
  for (Rank rank = 0; rank < ranks; ++rank) group.places.push_back({0, 0, rank, 0});
  return group;
}

uint64_t time_of_one_message(uint64_t bytes, uint32_t processors) {
  const Group group = ranks_of_a_host(2);
  Request request;
  request.operation = CCOM_SEND_RECEIVE;
  request.type = CCOM_UINT8;
  request.count = bytes;
  request.pairs = {{0, 1}};
  const auto plan = Planner(group, {}).plan(request);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().sentence);
  if (!plan) return 0;
  SimulationOptions options;
  options.costs.send_ps = 2'000'000;
  options.costs.receive_ps = 3'000'000;
  options.processors.of_node = processors;
  options.processors.switch_ps = 1'000'000;
  options.processors.wait_ps = 500'000;
  options.processors.send_bytes_per_second = 1e9;
  options.processors.receive_bytes_per_second = 2e9;
  options.processors.eager_bytes = 10'000;
  options.processors.offer_ps = 7'000'000;
  options.processors.piece_bytes = 20'000;
  const auto result = simulate(group, *plan, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().sentence);
  return result ? result->time_ps : 0;
}

TEST(Processors, AMessageTakesBothSidesAndTheWay) {
  // Sent after 2 us and 1 us of copying, 5 us on its way; the receiver, which has waited, takes
  // 3.5 us and copies for 0.5 us.
  EXPECT_EQ(time_of_one_message(1000, 2), 12'000'000u);
}

TEST(Processors, AReceiverThatSharesTheProcessorFindsItFreeWhenTheMessageIsThere) {
  EXPECT_EQ(time_of_one_message(1000, 1), 12'000'000u);
}

TEST(Processors, ALongMessageIsOfferedAndCopiedOutPieceByPiece) {
  // The sender takes 2 us, 7 us of offering and 30 us of copying, of which the last 10 us pass
  // while the receiver copies. The offer and its answer add 7 us of the receiver and two ways.
  EXPECT_EQ(time_of_one_message(30'000, 2),
            (29 + 5 + 7 + 10) * 1'000'000u + (3'500'000 + 15'000'000 + 7'000'000));
}

TEST(Processors, DividedResourcesHaveNone) {
  SimulationOptions options = divided();
  options.processors.of_node = 2;
  const auto result = simulate_ring(16, {}, 1'048'576, 1, options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().sentence.find("share processors"), std::string::npos);
}

}  // namespace
}  // namespace neuron::ccom
