// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/cost_fit.h"

#include <gtest/gtest.h>

namespace neuron::ccom {
namespace {

Group group_of(uint32_t nodes, uint32_t ranks_of_node) {
  NodeProfile node = *Topology::profile("host");
  node.ranks_per_chip = ranks_of_node;
  Group group{{}, Topology(node, nodes)};
  for (uint32_t r = 0; r < nodes * ranks_of_node; ++r) {
    group.places.push_back({r / ranks_of_node, 0, r % ranks_of_node, 0});
  }
  return group;
}

// What a host with these prices would measure.
std::vector<Observation> observe(const Group& group, const CostParameters& truth) {
  const Planner planner(group, truth);
  std::vector<Observation> all;
  for (const auto operation : {CCOM_ALL_REDUCE, CCOM_ALL_GATHER, CCOM_REDUCE_SCATTER}) {
    for (const auto algorithm : {CCOM_RING, CCOM_MESH}) {
      for (uint64_t count = 256; count <= 1 << 20; count *= 8) {
        Observation o{algorithm, {.operation = operation, .type = CCOM_FP32, .count = count}, 0};
        o.seconds = static_cast<double>(planner.predict(algorithm, o.request)) * 1e-12;
        all.push_back(o);
      }
    }
  }
  return all;
}

CostParameters slow_host() {
  CostParameters truth;
  truth.local_latency_ps = 3'000'000;
  truth.local_bytes_per_second = 2.5e9;
  truth.remote_latency_ps = 80'000'000;
  truth.remote_bytes_per_second = 1.1e9;
  truth.reduce_bytes_per_second = 6e9;
  truth.step_ps = 200'000;
  return truth;
}

TEST(CostFit, FindsPricesThatPredictWhatWasMeasured) {
  const Group group = group_of(1, 4);
  const auto fitted = fit_costs(group, Medium::kHostMemory, observe(group, slow_host()));
  ASSERT_TRUE(fitted) << fitted.error().sentence;
  EXPECT_GT(fitted->before, 0.5);
  EXPECT_LT(fitted->error, 0.05);
  EXPECT_NEAR(fitted->costs.local_bytes_per_second / 2.5e9, 1, 0.3);
  // Nothing has left the node.
  EXPECT_EQ(fitted->costs.remote_latency_ps, 0u);
  EXPECT_EQ(fitted->costs.remote_bytes_per_second, 0);
}

TEST(CostFit, LearnsOfOtherNodesFromWhatCrossesThem) {
  const Group group = group_of(2, 2);
  const auto fitted = fit_costs(group, Medium::kHostMemory, observe(group, slow_host()));
  ASSERT_TRUE(fitted) << fitted.error().sentence;
  EXPECT_LT(fitted->error, 0.1);
  EXPECT_GT(fitted->costs.remote_latency_ps, 20'000'000u);
  EXPECT_NEAR(fitted->costs.remote_bytes_per_second / 1.1e9, 1, 0.4);
}

TEST(CostFit, IsNotMisledByAFewMeasurementsThatWereDisturbed) {
  const Group group = group_of(1, 4);
  auto all = observe(group, slow_host());
  for (size_t i = 3; i < all.size(); i += 7) all[i].seconds *= 20;
  const auto fitted = fit_costs(group, Medium::kHostMemory, all);
  ASSERT_TRUE(fitted);
  EXPECT_LT(fitted->error, 0.1);
}

TEST(CostFit, RefusesTooLittle) {
  const Group group = group_of(1, 2);
  auto all = observe(group, slow_host());
  all.resize(4);
  const auto fitted = fit_costs(group, Medium::kHostMemory, all);
  ASSERT_FALSE(fitted);
  EXPECT_NE(fitted.error().sentence.find("4 measurements among 2 ranks"), std::string::npos);
  EXPECT_FALSE(fit_costs(group_of(1, 1), Medium::kHostMemory, {}));
}

}  // namespace
}  // namespace neuron::ccom
