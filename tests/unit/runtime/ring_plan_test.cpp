// SPDX-License-Identifier: Apache-2.0
#include "runtime/queue/ring_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace neuron::runtime {
namespace {

neff::Subgraph graph(const neff::DmaAccess& from, const neff::DmaAccess& to,
                     std::uint32_t engines = 16) {
  neff::Subgraph graph;
  graph.variables.resize(2);
  graph.queues.resize(1);
  graph.queues[0].name = "q";
  graph.queues[0].num_queues = engines;
  neff::DmaTransfer transfer;
  transfer.id = 7;
  transfer.semaphore = 33;
  transfer.from = {from};
  transfer.to = to;
  transfer.to.variable = 1;
  graph.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
  return graph;
}

neff::DmaAccess access(std::array<std::uint64_t, 4> sizes, std::array<std::int64_t, 4> steps,
                       std::uint64_t offset = 0) {
  neff::DmaAccess result;
  result.offset = offset;
  result.dimensions = 4;
  result.sizes = sizes;
  result.steps = steps;
  return result;
}

// The bytes that a side names, in order.
std::vector<std::uint64_t> bytes_of(const neff::DmaAccess& a) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t i3 = 0; i3 < a.sizes[3]; ++i3)
    for (std::uint64_t i2 = 0; i2 < a.sizes[2]; ++i2)
      for (std::uint64_t i1 = 0; i1 < a.sizes[1]; ++i1)
        for (std::uint64_t i0 = 0; i0 < a.sizes[0]; ++i0)
          result.push_back(a.offset + i0 + i1 * a.steps[1] + i2 * a.steps[2] + i3 * a.steps[3]);
  return result;
}

TEST(RingPlan, MovesEveryByteOnceFromAndToWhereTheAccessPatternsSay) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t a = 1 + random() % 6, b = 1 + random() % 5, c = 1 + random() % 4,
                        d = 1 + random() % 3;
    const auto from = access({a * b, c, d, 1}, {1, 100, -700, 0}, 5000);
    const auto to = access({a, b * c, d, 1}, {1, 40, 3000, 0}, 11);
    const auto plan = RingPlan::build(graph(from, to, 1 + random() % 16));
    ASSERT_TRUE(plan) << plan.error().detail;
    std::vector<std::uint64_t> sources, targets;
    for (const auto& packets : plan->queues()[0].packets) {
      for (const Packet& packet : packets) {
        if (packet.from == plan->one_index()) continue;
        for (std::uint32_t i = 0; i < packet.length; ++i) {
          sources.push_back(packet.from_offset + i);
          targets.push_back(packet.to_offset + i);
        }
      }
    }
    EXPECT_EQ(sources, bytes_of(from));
    EXPECT_EQ(targets, bytes_of(to));
  }
}

TEST(RingPlan, EveryEngineEndsWithTheSemaphoreBehindABarrier) {
  const auto rows = access({64, 20, 1, 1}, {1, 64, 0, 0});
  const auto plan = RingPlan::build(graph(rows, rows));
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->queues().size(), 1u);
  const QueuePlan& queue = plan->queues()[0];
  std::uint32_t data = 0;
  for (std::uint32_t e = 0; e < kDmaEngines; ++e) {
    const auto& packets = queue.packets[e];
    ASSERT_FALSE(packets.empty());
    const Packet& last = packets.back();
    EXPECT_EQ(last.from, plan->one_index());
    EXPECT_EQ(last.to, plan->semaphore_index());
    EXPECT_EQ(last.to_offset, 33u * 4);
    EXPECT_EQ(last.length, 4u);
    EXPECT_TRUE(packets.size() == 1 ? last.barrier : packets[packets.size() - 2].barrier);
    EXPECT_EQ(plan->counts(NEURON_ENGINE_SP, 7)[e], packets.size());
    data += static_cast<std::uint32_t>(packets.size()) - 1;
  }
  EXPECT_EQ(data, 20u);
  EXPECT_EQ(plan->counts(NEURON_ENGINE_PE, 7)[0], 0) << "block ids belong to an engine";
}

TEST(RingPlan, CutsLongRunsAt64KiB) {
  const auto run = access({200'000, 1, 1, 1}, {1, 0, 0, 0});
  const auto plan = RingPlan::build(graph(run, run, 1));
  ASSERT_TRUE(plan);
  const auto& packets = plan->queues()[0].packets[0];
  ASSERT_EQ(packets.size(), 5u);
  EXPECT_EQ(packets[0].length, 65536u);
  EXPECT_EQ(packets[3].length, 200'000u - 3 * 65536);
}

TEST(RingPlan, RingsAreLongerThanWhatTheyHold) {
  for (const std::uint64_t rows : {1, 30, 31, 32, 47, 48, 1000}) {
    const auto access_rows = access({4, rows, 1, 1}, {1, 4, 0, 0});
    const auto plan = RingPlan::build(graph(access_rows, access_rows, 1));
    ASSERT_TRUE(plan);
    const QueuePlan& queue = plan->queues()[0];
    EXPECT_GT(queue.length, queue.packets[0].size());
    EXPECT_EQ(queue.length % 16, 0u);
    EXPECT_GE(queue.length, 32u);
  }
}

TEST(RingPlan, RefusesWhatOneTriggerCannotStandFor) {
  const auto few = access({4, 2, 1, 1}, {1, 4, 0, 0});
  const auto more = access({4, 300, 1, 1}, {1, 4, 0, 0});
  neff::Subgraph two = graph(few, few);
  neff::DmaTransfer other = two.engines[NEURON_ENGINE_SP].dma[0];
  other.from = {more};
  other.to.sizes = more.sizes;
  two.engines[NEURON_ENGINE_SP].dma.push_back(other);
  const auto plan = RingPlan::build(two);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_INVALID);
  EXPECT_NE(plan.error().detail.find("id 7 of engine SP"), std::string::npos);
}

TEST(RingPlan, RefusesHugeTransfersBeforeItMakesThem) {
  const auto huge = access({1, 1u << 20, 1u << 10, 1}, {1, 2, 1 << 21, 0});
  const auto plan = RingPlan::build(graph(huge, huge));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_RESOURCE);
}

TEST(RingPlan, NamesWhatItDoesNotRun) {
  const auto row = access({4, 1, 1, 1}, {1, 0, 0, 0});
  neff::Subgraph g = graph(row, row);
  g.engines[NEURON_ENGINE_SP].dma[0].event = 3;
  const auto plan = RingPlan::build(g);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_NE(plan.error().detail.find("event"), std::string::npos);
}

}  // namespace
}  // namespace neuron::runtime
