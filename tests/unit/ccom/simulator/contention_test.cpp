// SPDX-License-Identifier: Apache-2.0
// Times of the engine of events where messages queue for links and memory, to the picosecond: what
// a heap of events with sequence numbers and unpacked flows found.
#include <gtest/gtest.h>

#include "ccom/simulator/chip_costs.h"
#include "tests/unit/ccom/simulator/rings.h"

namespace neuron::ccom {
namespace {

struct Known {
  ccom_operation_t operation;
  ccom_algorithm_t algorithm;
  uint32_t window;
  bool fold;
  uint64_t links_ps;   // without costs
  uint64_t chips_ps;   // with costs of steps, HBM and DMA
  uint64_t jitter_ps;  // and with messages that come late
};
constexpr Known kKnown[] = {
    {CCOM_ALL_REDUCE, CCOM_RING, 1, true, 3824063680, 5919023484, 8421005824},
    {CCOM_ALL_REDUCE, CCOM_RING, 4, false, 961744486, 5234859864, 6577136464},
    {CCOM_ALL_REDUCE, CCOM_BIDIRECTIONAL_RING, 1, true, 3824063680, 5919023484, 8421005824},
    {CCOM_ALL_REDUCE, CCOM_BIDIRECTIONAL_RING, 4, false, 961744486, 5234859864, 6577136464},
    {CCOM_ALL_REDUCE, CCOM_TWO_D_RING, 1, true, 276719894, 1880939588, 1482041547},
    {CCOM_ALL_REDUCE, CCOM_TWO_D_RING, 4, false, 159852145, 2054371635, 883103783},
    {CCOM_ALL_REDUCE, CCOM_PIPELINED_TWO_D_RING, 1, true, 276719894, 1880939588, 1482041547},
    {CCOM_ALL_REDUCE, CCOM_PIPELINED_TWO_D_RING, 4, false, 159852145, 2054371635, 883103783},
    {CCOM_ALL_REDUCE, CCOM_MESH, 1, true, 1308763840, 5306892921, 4048855305},
    {CCOM_ALL_REDUCE, CCOM_MESH, 4, false, 1383761600, 4007695318, 4048855305},
    {CCOM_ALL_REDUCE, CCOM_RECURSIVE, 1, true, 833063528, 1117325854, 1137903860},
    {CCOM_ALL_REDUCE, CCOM_RECURSIVE, 4, false, 831563528, 1108154587, 1177231746},
    {CCOM_ALL_REDUCE, CCOM_TREE, 1, true, 612349759, 815372579, 860619510},
    {CCOM_ALL_REDUCE, CCOM_TREE, 4, false, 618133048, 926537668, 924055946},
    {CCOM_ALL_REDUCE, CCOM_HIERARCHICAL, 1, true, 287722658, 1452851836, 1235097198},
    {CCOM_ALL_REDUCE, CCOM_HIERARCHICAL, 4, false, 302535534, 1619497452, 1386668356},
    {CCOM_ALL_GATHER, CCOM_RING, 1, true, 1914392640, 2940327502, 4498341775},
    {CCOM_ALL_GATHER, CCOM_RING, 4, false, 478487776, 2743871038, 4035592696},
    {CCOM_ALL_GATHER, CCOM_MESH, 1, true, 847104166, 3010176271, 3217243397},
    {CCOM_ALL_GATHER, CCOM_MESH, 4, false, 847104166, 3215752988, 3217243397},
    {CCOM_ALL_GATHER, CCOM_HIERARCHICAL, 1, true, 218624964, 451447301, 519607722},
    {CCOM_ALL_GATHER, CCOM_HIERARCHICAL, 4, false, 287093703, 558002181, 568357964},
    {CCOM_ALL_TO_ALL, CCOM_MESH, 1, true, 847104166, 3010176271, 3217243397},
    {CCOM_ALL_TO_ALL, CCOM_MESH, 4, false, 847104166, 3215752988, 3217243397},
    {CCOM_REDUCE_SCATTER, CCOM_RING, 1, true, 1914392640, 2956237152, 3937969250},
    {CCOM_REDUCE_SCATTER, CCOM_RING, 4, false, 478487776, 3676759533, 3102472376},
    {CCOM_REDUCE_SCATTER, CCOM_MESH, 1, true, 847104166, 3039358257, 3246425383},
    {CCOM_REDUCE_SCATTER, CCOM_MESH, 4, false, 847104166, 3244934974, 3246425383},
};

TEST(Contention, TimesAreEqualToThePicosecond) {
  const Group group = chips_of("trn1.32xlarge", 64);
  for (const Known& known : kKnown) {
    Request request;
    request.operation = known.operation;
    request.algorithm = known.algorithm;
    request.type = CCOM_FP32;
    request.count = known.operation == CCOM_ALL_REDUCE ? 750'011 : 15'625;
    CostParameters costs;
    costs.medium = Medium::kDevice;
    const auto plan = Planner(group, costs).plan(request, {0, 0, 0, known.window});
    ASSERT_TRUE(plan) << plan.error().sentence;
    SimulationOptions options;
    options.fold = known.fold;
    const auto time = [&] {
      const auto result = simulate(group, *plan, options);
      EXPECT_TRUE(result) << (result ? "" : result.error().sentence);
      return result ? result->time_ps : 0;
    };
    const uint64_t links = time();
    options.costs = chip_costs(1);
    options.memory = true;
    const uint64_t chips = time();
    options.jitter_ps = 5'000'000;
    const uint64_t jitter = time();
    const auto where = format("operation {}, algorithm {}, window {}", int(known.operation),
                              int(known.algorithm), known.window);
    EXPECT_EQ(links, known.links_ps) << where;
    EXPECT_EQ(chips, known.chips_ps) << where;
    EXPECT_EQ(jitter, known.jitter_ps) << where;
  }
}

}  // namespace
}  // namespace neuron::ccom
