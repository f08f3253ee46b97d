// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/simulator.h"

#include <gtest/gtest.h>

#include <functional>

#include "ccom/simulator/estimate.h"
#include "tests/unit/ccom/simulator/rings.h"

namespace neuron::ccom {
namespace {

constexpr double kLinkRate = 48e9, kLinkLatency = 1.5e-6;

double seconds(const Result<Simulation>& result) {
  EXPECT_TRUE(result) << (result ? "" : result.error().sentence);
  return result ? static_cast<double>(result->time_ps) * 1e-12 : 0;
}

RingShape shape_of(uint32_t channels, bool two_d = false, uint32_t segments = 1,
                   uint32_t slices = 1) {
  RingShape shape;
  shape.channels = channels;
  shape.two_d = two_d;
  shape.segments = segments;
  shape.slices = slices;
  return shape;
}

// Programs written by hand.
class Handwritten final : public Schedule {
 public:
  explicit Handwritten(std::vector<std::vector<std::vector<Step>>> steps)
      : steps_(std::move(steps)) {}

  uint32_t ranks() const override { return static_cast<uint32_t>(steps_.size()); }
  uint32_t channels() const override { return static_cast<uint32_t>(steps_[0].size()); }
  std::unique_ptr<Program> program(Rank rank, uint32_t channel) const override {
    return std::make_unique<List>(steps_[rank][channel]);
  }
  uint64_t input_bytes(Rank) const override { return 0; }
  uint64_t output_bytes(Rank) const override { return 0; }
  uint64_t scratch_bytes(Rank) const override { return 0; }

 private:
  class List final : public Program {
   public:
    explicit List(const std::vector<Step>& steps) : steps_(steps) {}
    bool next(Step& step) override {
      if (at_ == steps_.size()) return false;
      step = steps_[at_++];
      return true;
    }

   private:
    const std::vector<Step>& steps_;
    size_t at_ = 0;
  };

  std::vector<std::vector<std::vector<Step>>> steps_;
};

Step message(StepKind kind, Rank peer, uint64_t bytes) {
  Step step;
  step.kind = kind;
  step.peer = peer;
  step.bytes = bytes;
  return step;
}
Step send_to(Rank peer, uint64_t bytes) { return message(StepKind::kSend, peer, bytes); }
Step receive_from(Rank peer, uint64_t bytes) { return message(StepKind::kReceive, peer, bytes); }

Plan plan_of(std::vector<std::vector<std::vector<Step>>> steps, uint32_t window = 1) {
  Plan plan;
  plan.schedule = std::make_shared<Handwritten>(std::move(steps));
  plan.window = window;
  return plan;
}

TEST(Simulator, AMessageTakesItsLatencyAndItsBytes) {
  const Group group = chips_of("trn1.32xlarge", 16);
  std::vector<std::vector<std::vector<Step>>> steps(16, {{}});
  steps[0] = {{send_to(1, 48'000'000)}};
  steps[1] = {{receive_from(0, 48'000'000)}};
  for (const Engine engine : {Engine::kDataflow, Engine::kEvents}) {
    SimulationOptions options = divided();
    options.engine = engine;
    EXPECT_NEAR(seconds(simulate(group, plan_of(steps), options)), 1e-3 + kLinkLatency, 1e-9);
  }
}

TEST(Simulator, ADuplicateReadsOnceWhatTwoCopiesReadTwice) {
  const Group group = chips_of("trn1.32xlarge", 16);
  std::vector<std::vector<std::vector<Step>>> twice(16, {{}}), once(16, {{}});
  Step step = message(StepKind::kCopy, 0, 48'000'000);
  twice[0] = {{step, step}};
  step.kind = StepKind::kDuplicate;
  once[0] = {{step}};
  for (const Sharing sharing : {Sharing::kDivided, Sharing::kQueued}) {
    SimulationOptions options;
    options.sharing = sharing;
    options.memory = sharing == Sharing::kQueued;
    options.costs.copy_bytes_per_second = 48e9;
    const double copies = seconds(simulate(group, plan_of(twice), options));
    const double duplicate = seconds(simulate(group, plan_of(once), options));
    EXPECT_GT(duplicate, 0);
    EXPECT_LT(duplicate, copies);
  }
}

TEST(Simulator, AMessageToTheOppositeChipGoesThroughFourLinksAtOnce) {
  const Group group = chips_of("trn1.32xlarge", 16);
  std::vector<std::vector<std::vector<Step>>> steps(16, {{}});
  steps[0] = {{send_to(10, 48'000'000)}};
  steps[10] = {{receive_from(0, 48'000'000)}};
  for (const Sharing sharing : {Sharing::kDivided, Sharing::kQueued}) {
    SimulationOptions options;
    options.sharing = sharing;
    options.loads = true;
    const auto result = simulate(group, plan_of(steps), options);
    EXPECT_NEAR(seconds(result), 1e-3 + 4 * kLinkLatency, 1e-9);
    ASSERT_EQ(result->loads.size(), 4u);
    EXPECT_EQ(result->loads[0].name, "node 0 chip 0 -> 1");
    EXPECT_EQ(result->loads[0].bytes, 48'000'000u);
    EXPECT_NEAR(result->loads[0].busy, 1, 0.01);
  }
}

TEST(Simulator, TwoFlowsOnOneLinkHaveHalfOfItEachOrQueueForIt) {
  const Group group = chips_of("trn1.32xlarge", 16);
  std::vector<std::vector<std::vector<Step>>> steps(16, {{}, {}});
  steps[0] = {{send_to(1, 48'000'000)}, {send_to(1, 48'000'000)}};
  steps[1] = {{receive_from(0, 48'000'000)}, {receive_from(0, 48'000'000)}};
  EXPECT_NEAR(seconds(simulate(group, plan_of(steps), divided())), 2e-3 + kLinkLatency, 1e-9);
  EXPECT_NEAR(seconds(simulate(group, plan_of(steps), {})), 2e-3 + kLinkLatency, 1e-9);
  // The one that is first in the queue is done first.
  steps[1][1].clear();
  steps[2] = {{}, {receive_from(0, 48'000'000)}};
  steps[0] = {{send_to(1, 48'000'000)}, {send_to(2, 48'000'000)}};
  const auto queued = simulate(group, plan_of(steps), {});
  EXPECT_NEAR(seconds(queued), 2e-3 + 2 * kLinkLatency, 1e-9);
  EXPECT_NEAR(static_cast<double>(queued->finished_ps[1]) * 1e-12, 1e-3 + kLinkLatency, 1e-9);
}

TEST(Simulator, AWindowCostsTheWayBackOfItsCreditsToTheNanosecond) {
  const Group group = chips_of("trn1.32xlarge", 16);
  constexpr uint64_t kBytes = 48'000;  // 1 us
  constexpr uint32_t kMessages = 100;
  for (const uint32_t window : {1u, 2u, 3u, 4u, 64u}) {
    std::vector<std::vector<std::vector<Step>>> steps(16, {{}});
    steps[0] = {std::vector<Step>(kMessages, send_to(1, kBytes))};
    steps[1] = {std::vector<Step>(kMessages, receive_from(0, kBytes))};
    // Every `window` messages the sender waits for the round trip, or the link is never idle.
    const double round = std::max(2 * kLinkLatency + 1e-6, window * 1e-6);
    constexpr uint32_t kLast = kMessages - 1;
    const double sent = kLast / window * round + kLast % window * 1e-6;
    EXPECT_NEAR(seconds(simulate(group, plan_of(steps, window), divided())),
                sent + 1e-6 + kLinkLatency, 1e-9)
        << window;
  }
}

TEST(Simulator, RingsMeetTheirClosedForms) {
  constexpr uint64_t kBytes = 64'000'000;
  const double block = kBytes / 16.0 / kLinkRate;
  // One directed cycle of the torus; a window that hides the credits.
  EXPECT_NEAR(seconds(simulate_ring(16, shape_of(1), kBytes, 4, divided())),
              30 * (kLinkLatency + block), 30 * block * 1e-3);
  // Four directed cycles: a quarter of the bytes on each.
  EXPECT_NEAR(seconds(simulate_ring(16, shape_of(4), kBytes, 4, divided())),
              30 * (kLinkLatency + block / 4), 30 * block / 4 * 1e-3);
  // Reductions take their time in the first half of the steps.
  SimulationOptions options = divided();
  options.costs.reduce_bytes_per_second = 100e9;
  const double reduce = 2 * (kBytes / 16.0) / 100e9;
  EXPECT_NEAR(seconds(simulate_ring(16, shape_of(1), kBytes, 4, options)),
              30 * (kLinkLatency + block) + 15 * reduce, 30 * block * 1e-3);
}

TEST(Simulator, AWindowOfOnePaysTheSlowestHopInEveryStep) {
  constexpr uint64_t kBytes = 192'000'000;
  const double occupied = kBytes / 8.0 / 512 / 12.5e9;
  EXPECT_NEAR(seconds(simulate_ring(512, shape_of(8), kBytes, 1, divided())),
              1022 * (30e-6 + occupied), 1e-3 * 1022 * (30e-6 + occupied));
}

// Flat and two-dimensional rings with one, three and eight channels, whole or in segments of
// slices.
std::vector<RingShape> twelve_shapes() {
  std::vector<RingShape> shapes;
  for (const bool two_d : {false, true}) {
    for (const uint32_t channels : {1, 3, 8}) {
      shapes.push_back(shape_of(channels, two_d));
      shapes.push_back(shape_of(channels, two_d, 4, 2));
    }
  }
  return shapes;
}

constexpr uint64_t kBytesOfShapes = 6'291'456;

// Both engines, folded or not, on one or several threads.
TEST(Simulator, EnginesFoldingAndThreadsGiveTheSameTimesOfTwelveShapesOfRings) {
  for (const RingShape& shape : twelve_shapes()) {
    for (const uint32_t window : {1u, 3u}) {
      SCOPED_TRACE(testing::Message()
                   << shape.channels << " channels, " << shape.segments << " segments, two_d "
                   << shape.two_d << ", window " << window);
      SimulationOptions options = divided();
      options.costs = {20'000, 30'000, 5'000, 200e9, 150e9, 40'000, 100};
      const auto reference = simulate_ring(64, shape, kBytesOfShapes, window, options);
      ASSERT_TRUE(reference) << reference.error().sentence;
      EXPECT_TRUE(reference->folded);
      for (const bool fold : {true, false}) {
        options.fold = fold;
        for (const auto& [engine, threads] :
             {std::pair{Engine::kEvents, 1u}, std::pair{Engine::kDataflow, 1u},
              std::pair{Engine::kDataflow, 2u}, std::pair{Engine::kDataflow, 3u}}) {
          if (threads > 1 && window == 1) continue;  // threads wait for one another: it takes long
          options.engine = engine;
          options.threads = threads;
          const auto result = simulate_ring(64, shape, kBytesOfShapes, window, options);
          ASSERT_TRUE(result) << result.error().sentence;
          EXPECT_EQ(result->folded, fold);
          EXPECT_EQ(result->time_ps, reference->time_ps);
          for (size_t rank = 0; rank < result->finished_ps.size(); ++rank) {
            EXPECT_EQ(result->finished_ps[rank], reference->finished_ps[rank % 16]) << rank;
          }
        }
      }
    }
  }
}

TEST(Simulator, QueuesFoldToTheSameTimeWhereNothingCollides) {
  for (const uint32_t channels : {1, 4, 8}) {
    for (const uint32_t window : {1, 2, 4}) {
      SimulationOptions options;
      const auto folded = simulate_ring(64, shape_of(channels), 1'048'576 * 4, window, options);
      options.fold = false;
      const auto whole = simulate_ring(64, shape_of(channels), 1'048'576 * 4, window, options);
      EXPECT_EQ(folded->time_ps, whole->time_ps) << channels << " channels, window " << window;
      EXPECT_EQ(folded->ranks, 16u);
      EXPECT_EQ(whole->ranks, 64u);
      EXPECT_EQ(whole->messages, 4 * folded->messages);
    }
  }
}

TEST(Simulator, JitterOfASeedIsTheSameOnBothEnginesAndOneToThreeThreadsForTwelveShapesOfRings) {
  for (const RingShape& shape : twelve_shapes()) {
    SCOPED_TRACE(testing::Message() << shape.channels << " channels, " << shape.segments
                                    << " segments, two_d " << shape.two_d);
    SimulationOptions options = divided();
    const auto time = [&] {
      const auto result = simulate_ring(64, shape, kBytesOfShapes, 4, options);
      EXPECT_TRUE(result) << result.error().sentence;
      EXPECT_EQ(result->folded, options.jitter_ps == 0);
      return result->time_ps;
    };
    options.jitter_ps = 5'000'000;
    const uint64_t first = time();
    for (const uint32_t threads : {2u, 3u}) {
      options.threads = threads;
      EXPECT_EQ(time(), first) << threads << " threads";
    }
    options.threads = 1;
    options.engine = Engine::kEvents;
    EXPECT_EQ(time(), first);
    options.seed = 2;
    EXPECT_NE(time(), first);
    options.jitter_ps = 0;
    EXPECT_LT(time(), first);
  }
}

TEST(Simulator, AFailedLinkIsAvoidedAndCostsTime) {
  const Group group = chips_of("trn1.32xlarge", 16);
  const Plan plan = ring_plan(group, shape_of(1), 64'000'000, 4);
  SimulationOptions options;
  options.loads = true;
  const auto whole = simulate(group, plan, options);
  options.failed = {*parse_failed_link("0/0-1", group.topology)};
  const auto around = simulate(group, plan, options);
  EXPECT_GT(seconds(around), seconds(whole));
  for (const ResourceLoad& load : around->loads) EXPECT_NE(load.name, "node 0 chip 0 -> 1");
}

TEST(Simulator, AChipWithoutLinksIsNamedWithThoseThatFailed) {
  const Group group = chips_of("trn1.32xlarge", 16);
  SimulationOptions options;
  for (const char* link : {"0/0-1", "0/0-3", "0/0-4", "0/0-12"}) {
    options.failed.push_back(*parse_failed_link(link, group.topology));
  }
  const auto result = simulate(group, ring_plan(group, shape_of(1), 64'000'000, 4), options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().sentence.find("no way from chip"), std::string::npos);
  EXPECT_NE(result.error().sentence.find("0-12"), std::string::npos);
}

TEST(Simulator, AFailedNicLeavesItsTrafficToAnother) {
  const Group group = chips_of("trn1.32xlarge", 32);
  const Plan plan = ring_plan(group, shape_of(8), 64'000'000, 4);
  const auto whole = simulate(group, plan, {});
  SimulationOptions options;
  options.failed = {*parse_failed_link("1/nic3", group.topology)};
  EXPECT_GT(seconds(simulate(group, plan, options)), 1.2 * seconds(whole));
}

TEST(Simulator, LinksThatAreNotThereAreNotTakenAsFailed) {
  const Group group = chips_of("trn1.32xlarge", 16);
  for (const char* text : {"0/0-2", "1/0-1", "0/nic8", "0/0", "", "0/0-1x", "nonsense"}) {
    const auto link = parse_failed_link(text, group.topology);
    EXPECT_FALSE(link) << text;
  }
}

TEST(Simulator, AScheduleThatWaitsInACircleIsNamed) {
  const Group group = chips_of("trn1.32xlarge", 16);
  std::vector<std::vector<std::vector<Step>>> steps(16, {{}});
  steps[3] = {{receive_from(4, 8), send_to(4, 8)}};
  steps[4] = {{receive_from(3, 8), send_to(3, 8)}};
  for (const Engine engine : {Engine::kDataflow, Engine::kEvents}) {
    for (const uint32_t threads : {1u, 2u, 4u}) {
      SimulationOptions options = divided();
      options.engine = engine;
      options.threads = threads;
      const auto result = simulate(group, plan_of(steps), options);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().status, CCOM_TIMEOUT);
      EXPECT_NE(result.error().sentence.find("rank 3 channel 0 waits at step 0 to receive from "
                                             "rank 4"),
                std::string::npos)
          << result.error().sentence;
    }
  }
}

TEST(Simulator, AChannelWaitsForTheStepsOfAnother) {
  const Group group = chips_of("trn1.32xlarge", 16);
  Step wait;
  wait.kind = StepKind::kWait;
  wait.channel = 0;
  wait.position = 1;
  std::vector<std::vector<std::vector<Step>>> steps(16, {{}, {}});
  steps[0] = {{send_to(1, 48'000'000)}, {receive_from(1, 48'000'000)}};
  steps[1] = {{receive_from(0, 48'000'000)}, {wait, send_to(0, 48'000'000)}};
  for (const Engine engine : {Engine::kDataflow, Engine::kEvents}) {
    SimulationOptions options = divided();
    options.engine = engine;
    EXPECT_NEAR(seconds(simulate(group, plan_of(steps), options)), 2e-3 + 2 * kLinkLatency, 1e-9);
  }
}

TEST(Simulator, MemoryThatIsSlowerThanTheLinkIsTheBound) {
  const Group group = [] {
    Group made = chips_of("trn1.32xlarge", 16);
    NodeProfile node = made.topology.node();
    node.hbm_bytes_per_second = 24e9;
    made.topology = Topology(node, 1);
    return made;
  }();
  std::vector<std::vector<std::vector<Step>>> steps(16, {{}});
  steps[0] = {{send_to(1, 48'000'000)}};
  steps[1] = {{receive_from(0, 48'000'000)}};
  SimulationOptions options;
  options.memory = true;
  EXPECT_NEAR(seconds(simulate(group, plan_of(steps), options)), 2e-3 + kLinkLatency, 1e-9);
}

TEST(Simulator, PlacesOutsideTheTopologyAreRefused) {
  Group group = chips_of("trn1.32xlarge", 16);
  const Plan plan = ring_plan(group, shape_of(1), 1'048'576, 1);
  group.places[5].chip = 16;
  const auto result = simulate(group, plan, {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().sentence.find("rank 5 is at node 0 chip 16"), std::string::npos);
}

TEST(Simulator, ADataflowOfSharedResourcesIsRefused) {
  SimulationOptions options;
  options.engine = Engine::kDataflow;
  EXPECT_FALSE(simulate_ring(16, shape_of(1), 1'048'576, 1, options));
}

TEST(Simulator, ATopologyWithoutNicsCannotSendToAnotherNode) {
  Group group = chips_of("trn1.32xlarge", 32);
  NodeProfile node = group.topology.node();
  node.nics = 0;
  group.topology = Topology(node, 2);
  const auto result = simulate(group, ring_plan(group, shape_of(1), 1'048'576, 1), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, CCOM_UNSUPPORTED);
}

TEST(Simulator, AHundredThousandFoldedChipsAreDoneInAMoment) {
  const auto result = simulate_ring(100'000, shape_of(1, true), 235'000'000, 1, divided());
  ASSERT_TRUE(result) << result.error().sentence;
  EXPECT_TRUE(result->folded);
  EXPECT_EQ(result->ranks, 16u);
  EXPECT_EQ(result->messages, 16u * (30 + 2 * 6249));
}

TEST(Simulator, ASimulationEndsAtTheTimeThatItIsGiven) {
  SimulationOptions options;
  const auto whole = simulate_ring(64, shape_of(4), 1'048'576 * 4, 2, options);
  options.until_ps = whole->time_ps / 2;
  const auto half = simulate_ring(64, shape_of(4), 1'048'576 * 4, 2, options);
  ASSERT_TRUE(half);
  EXPECT_TRUE(whole->complete);
  EXPECT_FALSE(half->complete);
  EXPECT_EQ(half->time_ps, options.until_ps);
  EXPECT_LT(half->steps, whole->steps);
}

TEST(Simulator, AVectorThatTheRanksDoNotDivideIsFoldedWithinTwoPerMille) {
  SimulationOptions options;
  options.fold = false;
  Request request;
  request.operation = CCOM_ALL_REDUCE;
  request.type = CCOM_FP32;
  request.count = 1'000'003;
  const Group group = chips_of("trn1.32xlarge", 64);
  Plan plan;
  plan.schedule = make_ring(request, group, Places(group), shape_of(8, true));
  plan.window = 4;
  const auto whole = simulate(group, plan, options);
  options.fold = true;
  const auto folded = simulate(group, plan, options);
  EXPECT_TRUE(folded->folded);
  EXPECT_FALSE(whole->folded);
  EXPECT_NEAR(seconds(folded), seconds(whole), 2e-3 * seconds(whole));
}

TEST(Simulator, AnEstimateTellsTheStepsOfASimulation) {
  const Group group = chips_of("trn1.32xlarge", 64);
  const Plan plan = ring_plan(group, shape_of(4), 1'048'576 * 4, 2);
  for (const bool fold : {true, false}) {
    SimulationOptions options;
    options.fold = fold;
    const auto guess = estimate(group, plan, options);
    const auto found = simulate(group, plan, options);
    ASSERT_TRUE(guess);
    EXPECT_EQ(guess->ranks, found->ranks);
    EXPECT_NEAR(guess->steps, static_cast<double>(found->steps), 1e-6 * guess->steps);
    EXPECT_GT(guess->memory_bytes, 0);
  }
}

}  // namespace
}  // namespace neuron::ccom
