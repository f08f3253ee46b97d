// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/host_model.h"

#include <gtest/gtest.h>

namespace neuron::ccom {
namespace {

constexpr uint64_t kBytes = 1 << 20;

Plan plan_of(uint32_t ranks, ccom_operation_t operation, ccom_algorithm_t algorithm) {
  NodeProfile node = *Topology::profile("host");
  Group group{{}, Topology(node, 1)};
  for (Rank rank = 0; rank < ranks; ++rank) group.places.push_back({0, 0, rank, 0});
  Request request;
  request.operation = operation;
  request.type = CCOM_FP32;
  request.algorithm = algorithm;
  request.count = kBytes / 4 / (operation == CCOM_ALL_REDUCE ? 1 : ranks);
  Parameters parameters;
  parameters.channels = 1;
  auto plan = Planner(group, {}).plan(request, parameters);
  EXPECT_TRUE(plan) << plan.error().sentence;
  return std::move(*plan);
}

HostModel model_of(uint32_t processors) {
  HostModel model;
  model.processors = processors;
  model.start_ps = 1'000'000;
  model.message_ps = 100'000;
  model.copy.set(1, 100);
  model.read.set(1, 30);
  model.write.set(1, 50);
  return model;
}

double ps_per_byte(uint32_t ranks, uint32_t processors, ccom_operation_t operation,
                   ccom_algorithm_t algorithm) {
  const auto result = simulate_host(plan_of(ranks, operation, algorithm), model_of(processors));
  EXPECT_TRUE(result) << result.error().sentence;
  return static_cast<double>(result->time_ps - 1'000'000) / kBytes;
}

TEST(HostModel, OneRankOfAMeshReducesItsPartAndWritesItToAll) {
  EXPECT_NEAR(ps_per_byte(2, 2, CCOM_ALL_REDUCE, CCOM_MESH), (2 * 30 + 2 * 50) / 2.0, 1);
  EXPECT_NEAR(ps_per_byte(4, 4, CCOM_ALL_REDUCE, CCOM_MESH), (4 * 30 + 4 * 50) / 4.0, 1);
  EXPECT_NEAR(ps_per_byte(2, 2, CCOM_REDUCE_SCATTER, CCOM_MESH), (2 * 30 + 50) / 2.0, 1);
  EXPECT_NEAR(ps_per_byte(2, 2, CCOM_ALL_GATHER, CCOM_MESH), 100, 1);
}

TEST(HostModel, ReceivesOfARingCopyOnlyWhatNoReductionReads) {
  EXPECT_NEAR(ps_per_byte(4, 4, CCOM_ALL_REDUCE, CCOM_RING), (4 * 30 + 50 + 3 * 100) / 4.0, 2);
}

TEST(HostModel, RanksThatShareAProcessorTakeTurns) {
  for (const ccom_algorithm_t algorithm : {CCOM_MESH, CCOM_RING}) {
    const double alone = ps_per_byte(8, 8, CCOM_ALL_REDUCE, algorithm);
    EXPECT_NEAR(ps_per_byte(8, 2, CCOM_ALL_REDUCE, algorithm), 4 * alone, 0.05 * 4 * alone);
  }
}

TEST(HostModel, CurvesAreStraightBetweenLogarithmsAndLevelOutside) {
  HostCurve curve;
  EXPECT_EQ(curve.at(100), 0);
  curve.set(1 << 16, 40);
  curve.set(1 << 12, 20);
  EXPECT_EQ(curve.at(1), 20);
  EXPECT_EQ(curve.at(1 << 14), 30);
  EXPECT_EQ(curve.at(1 << 20), 40);
}

}  // namespace
}  // namespace neuron::ccom
