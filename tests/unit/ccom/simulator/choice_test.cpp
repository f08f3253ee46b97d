// SPDX-License-Identifier: Apache-2.0
// What a planner with a judge leaves out: its choice against every other algorithm. The judge is
// the simulator, and so is the referee here, so this shows that predictions left nothing out that
// would have won, and nothing of whether the simulator is right (tests/system/simulator, bench
// truth).
#include <gtest/gtest.h>

#include "ccom/request/names.h"
#include "ccom/simulator/judge.h"
#include "ccom/simulator/simulator.h"
#include "tests/support/sanitized.h"

namespace neuron::ccom {
namespace {

constexpr double kMostLost = 1.10;

Group ranks_of(const std::string& profile, uint32_t chips) {
  const NodeProfile node = *Topology::profile(profile);
  const uint32_t nodes = (chips + node.chips - 1) / node.chips;
  Group group{{}, Topology(node, nodes)};
  for (Rank rank = 0; rank < chips * node.ranks_per_chip; ++rank) {
    group.places.push_back(group.topology.place(rank));
  }
  return group;
}

Request request_of(ccom_operation_t operation, uint32_t ranks, uint64_t bytes) {
  Request request;
  request.operation = operation;
  request.type = CCOM_BF16;
  const bool whole =
      operation == CCOM_ALL_REDUCE || operation == CCOM_BROADCAST || operation == CCOM_REDUCE;
  request.count =
      operation == CCOM_BARRIER ? 0 : (bytes / 2 + (whole ? 0 : ranks - 1)) / (whole ? 1 : ranks);
  return request;
}

// The automatic choice loses at most 10 % to each candidate. A candidate is simulated only until it
// has lost.
void expect_the_best(const Planner& planner, const Request& request) {
  const auto chosen = planner.plan(request);
  ASSERT_TRUE(chosen) << chosen.error().sentence;
  const auto time = simulate(planner.group(), *chosen);
  ASSERT_TRUE(time) << time.error().sentence;
  for (const ccom_algorithm_t algorithm : planner.candidates(request)) {
    if (algorithm == chosen->algorithm) continue;
    Request named = request;
    named.algorithm = algorithm;
    const auto plan = planner.plan(named);
    ASSERT_TRUE(plan) << plan.error().sentence;
    SimulationOptions options;
    options.until_ps = static_cast<uint64_t>(static_cast<double>(time->time_ps) / kMostLost) + 1;
    const auto other = simulate(planner.group(), *plan, options);
    ASSERT_TRUE(other) << other.error().sentence;
    EXPECT_FALSE(other->complete) << operation_name(request.operation) << " of " << request.count
                                  << " elements on " << planner.group().ranks()
                                  << " ranks: " << algorithm_name(chosen->algorithm) << " takes "
                                  << time->time_ps << " ps and " << algorithm_name(algorithm) << " "
                                  << other->time_ps;
  }
}

constexpr ccom_operation_t kOperations[] = {CCOM_ALL_REDUCE, CCOM_ALL_GATHER, CCOM_REDUCE_SCATTER,
                                            CCOM_ALL_TO_ALL, CCOM_BROADCAST,  CCOM_REDUCE,
                                            CCOM_GATHER,     CCOM_SCATTER,    CCOM_BARRIER};
constexpr uint64_t kSizes[] = {1 << 10, 1 << 20, 64 << 20, 1 << 30};

void expect_the_best_of_all(const std::string& profile, std::vector<uint32_t> chips) {
  for (const uint32_t number : chips) {
    const Group group = ranks_of(profile, number);
    const Planner planner(group, {Medium::kDevice, 0, 0, 0, 0, 0, 0}, make_judge({}));
    for (const ccom_operation_t operation : kOperations) {
      for (const uint64_t bytes : kSizes) {
        if (operation == CCOM_BARRIER && bytes != kSizes[0]) continue;
        expect_the_best(planner, request_of(operation, group.ranks(), bytes));
      }
    }
  }
}

TEST(Choice, LeavesOutNothingThatWinsByMoreThanTenPercentOnTrn1) {
  expect_the_best_of_all("trn1.32xlarge", {16, 32, 64, 256, 512});
}

TEST(Choice, LeavesOutNothingThatWinsByMoreThanTenPercentOnTrn2) {
  expect_the_best_of_all("trn2.48xlarge", {16, 64});
}

// The cells that a choice by thresholds lost by a factor of 3 to 12.
TEST(Choice, LeavesOutNothingThatWinsByMoreThanTenPercentOnManyChips) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and time of its own";
  for (const uint32_t chips : {768u, 1024u, 4096u}) {
    const Group group = ranks_of("trn1.32xlarge", chips);
    const Planner planner(group, {Medium::kDevice, 0, 0, 0, 0, 0, 0}, make_judge({}));
    for (const auto operation : {CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER, CCOM_ALL_GATHER}) {
      expect_the_best(planner, request_of(operation, group.ranks(), 64 << 20));
    }
  }
}

TEST(Choice, LeavesOutNothingThatWinsByMoreThanTenPercentOnAHundredThousandChips) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and time of its own";
  const Group group = ranks_of("trn1.32xlarge", 100'000);
  const Planner planner(group, {Medium::kDevice, 0, 0, 0, 0, 0, 0}, make_judge({}));
  expect_the_best(planner, request_of(CCOM_ALL_REDUCE, group.ranks(), 64 << 20));
}

TEST(Choice, LeavesOutAlgorithmsThatTheJudgeCannotSimulate) {
  const Group group = ranks_of("trn1.32xlarge", 64);
  const Request request = request_of(CCOM_ALL_REDUCE, group.ranks(), 1 << 20);
  const Judge judge = make_judge({});
  const Planner free(group, {Medium::kDevice, 0, 0, 0, 0, 0, 0}, judge);
  const auto best = free.plan(request)->algorithm;
  const Planner picky(group, {Medium::kDevice, 0, 0, 0, 0, 0, 0},
                      [&](const Group& of, const Plan& plan, uint64_t until) -> Result<uint64_t> {
                        if (plan.algorithm == best) return fail(CCOM_RESOURCE, "it is too large");
                        return judge(of, plan, until);
                      });
  const auto plan = picky.plan(request);
  ASSERT_TRUE(plan) << plan.error().sentence;
  EXPECT_NE(plan->algorithm, best);
  EXPECT_TRUE(plan->automatic);
  const Planner none(group, {Medium::kDevice, 0, 0, 0, 0, 0, 0}, make_judge({}, 1));
  const auto refused = none.plan(request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().sentence.find("cannot be judged"), std::string::npos);
}

}  // namespace
}  // namespace neuron::ccom
