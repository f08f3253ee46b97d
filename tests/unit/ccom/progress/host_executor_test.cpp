// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "ccom/progress/host_control.h"
#include "ccom/request/names.h"
#include "tests/unit/ccom/progress/host_job.h"
#include "tests/unit/ccom/proof/written_schedule.h"

namespace neuron::ccom {
namespace {

struct Case {
  Request request;
  std::shared_ptr<const Plan> plan;
  Signature signature;
};

Request request_of(ccom_operation_t operation, ccom_algorithm_t algorithm, uint64_t count,
                   uint32_t ranks) {
  Request request;
  request.operation = operation;
  request.type = CCOM_INT32;
  request.algorithm = algorithm;
  request.count = operation == CCOM_BARRIER ? 0 : count;
  const bool rooted = operation == CCOM_BROADCAST || operation == CCOM_REDUCE ||
                      operation == CCOM_GATHER || operation == CCOM_SCATTER;
  request.root = rooted ? ranks - 1 : 0;
  if (operation == CCOM_SEND_RECEIVE) {
    request.pairs = {{0, ranks - 1}};
  } else if (operation == CCOM_PERMUTE) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      request.pairs.push_back({rank, (rank + 1) % ranks});
    }
  }
  return request;
}

std::vector<Case> every_case(const HostJob& job, const std::vector<uint64_t>& counts) {
  std::vector<Case> cases;
  for (int kind = 0; kind < CCOM_ALL_GATHER_V; ++kind) {
    const auto operation = static_cast<ccom_operation_t>(kind);
    for (const uint64_t count : counts) {
      for (const auto algorithm :
           job.planner.candidates(request_of(operation, CCOM_ALGORITHM_AUTO, count, job.ranks()))) {
        Case made{request_of(operation, algorithm, count, job.ranks()), nullptr, {}};
        made.plan = job.plan(made.request);
        made.signature = signature_of(made.request, cases.size());
        cases.push_back(std::move(made));
      }
    }
  }
  return cases;
}

TEST(HostExecutor, WritesBothResultsOfADuplicate) {
  for (const bool apart : {false, true}) {
    HostJob job(4, apart);
    const Request request = request_of(CCOM_ALL_GATHER, CCOM_RECURSIVE, 3000, 4);
    Plan plan = *job.plan(request);
    auto schedule = std::make_shared<WrittenSchedule>(*plan.schedule);
    ASSERT_GE(send_duplicates(*schedule), 4u);
    plan.schedule = schedule;
    const auto shared = std::make_shared<const Plan>(plan);
    job.on_all([&](Rank rank) {
      Buffers buffers(request, rank, 4);
      const auto done = job.executors[rank]->run(shared, buffers.operands(),
                                                 signature_of(request, 0), milliseconds(20000));
      EXPECT_TRUE(done) << done.error().sentence;
      EXPECT_EQ(buffers.output, buffers.expected) << "rank " << rank;
    });
  }
}

// Every operation with every algorithm that can do it, one after the other.
void run_everything(uint32_t ranks, bool apart, bool rank_order,
                    const std::vector<uint64_t>& counts) {
  HostJob job(ranks, apart, rank_order);
  const std::vector<Case> cases = every_case(job, counts);
  ASSERT_GT(cases.size(), 10u);
  std::atomic<uint32_t> right{0};
  job.on_all([&](Rank rank) {
    for (const Case& each : cases) {
      Buffers buffers(each.request, rank, ranks);
      const auto done = job.executors[rank]->run(each.plan, buffers.operands(), each.signature,
                                                 milliseconds(20000));
      const auto name = [&] {
        return std::string(operation_name(each.request.operation)) + " " +
               algorithm_name(each.plan->algorithm) + " of " + std::to_string(each.request.count) +
               " on rank " + std::to_string(rank);
      };
      EXPECT_TRUE(done) << name() << ": " << done.error().sentence;
      EXPECT_EQ(buffers.output, buffers.expected) << name();
      if (!done || buffers.output != buffers.expected) return;
      ++right;
    }
  });
  EXPECT_EQ(right, ranks * cases.size());
}

TEST(HostExecutor, DoesEveryOperationOfOneRank) { run_everything(1, false, true, {0, 1, 1000}); }
TEST(HostExecutor, DoesEveryOperationOfTwoThreads) {
  run_everything(2, false, true, {0, 1, 12, 13, 100, 5000, 70001});
}
TEST(HostExecutor, DoesEveryOperationOfFiveThreads) { run_everything(5, false, true, {1, 9001}); }
TEST(HostExecutor, DoesEveryOperationWithBuffersThatPeersCannotSee) {
  run_everything(3, true, true, {0, 1, 13, 9001});
}
TEST(HostExecutor, DoesEveryOperationInTheOrderOfTheAlgorithm) {
  run_everything(4, false, false, {1, 9001});
}

// fp32 whose sum depends on the order.
std::vector<float> awkward(Rank rank, uint64_t count) {
  std::mt19937 random(rank + 1);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random()) - 2.1e9f, static_cast<int>(random() % 40));
  }
  return values;
}

void expect_rank_order(bool apart, bool in_place, uint64_t count) {
  constexpr uint32_t kRanks = 4;
  HostJob job(kRanks, apart);
  std::vector<std::vector<float>> inputs;
  std::vector<const std::byte*> operands;
  for (Rank rank = 0; rank < kRanks; ++rank) inputs.push_back(awkward(rank, count));
  for (const auto& input : inputs) {
    operands.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<float> expected(count);
  reduce_reference(CCOM_FP32, CCOM_ADD, reinterpret_cast<std::byte*>(expected.data()),
                   operands.data(), kRanks, count);
  Request request;
  request.operation = CCOM_ALL_REDUCE;
  request.type = CCOM_FP32;
  request.count = count;
  request.in_place = in_place;
  std::vector<std::shared_ptr<const Plan>> plans;
  for (const auto algorithm : job.planner.candidates(request)) {
    request.algorithm = algorithm;
    plans.push_back(job.plan(request));
    // The same schedule by its steps, where there is a direct form.
    Plan steps = *plans.back();
    if (steps.algorithm != CCOM_MESH && steps.algorithm != CCOM_ONE_STEP_MESH) continue;
    steps.algorithm = CCOM_RING;
    plans.push_back(std::make_shared<const Plan>(steps));
  }
  ASSERT_GT(plans.size(), 3u);
  job.on_all([&](Rank rank) {
    for (size_t i = 0; i < plans.size(); ++i) {
      std::vector<float> input = inputs[rank], output(count);
      auto* to = reinterpret_cast<std::byte*>(in_place ? input.data() : output.data());
      const auto done =
          job.executors[rank]->run(plans[i], {reinterpret_cast<std::byte*>(input.data()), to},
                                   signature_of(request, i), milliseconds(20000));
      ASSERT_TRUE(done) << done.error().sentence;
      EXPECT_EQ(std::memcmp(to, expected.data(), count * 4), 0)
          << algorithm_name(plans[i]->algorithm) << " on rank " << rank << " of plan " << i;
    }
  });
}

TEST(HostExecutor, EveryAlgorithmGivesTheBitsOfTheRankOrder) {
  expect_rank_order(false, false, 30011);
}
TEST(HostExecutor, SmallVectorsHaveTheBitsOfTheRankOrderToo) { expect_rank_order(false, false, 3); }
TEST(HostExecutor, EveryAlgorithmGivesTheBitsOfTheRankOrderInPlace) {
  expect_rank_order(false, true, 30011);
}
TEST(HostExecutor, EveryAlgorithmGivesTheBitsOfTheRankOrderInPlaceOfHiddenMemory) {
  expect_rank_order(true, true, 30011);
}

TEST(HostExecutor, BuffersInTheArenaAreUsedWhereTheyLie) {
  HostJob job(2, true);
  const Request request = request_of(CCOM_ALL_REDUCE, CCOM_MESH, 100000, 2);
  const auto plan = job.plan(request);
  job.on_all([&](Rank rank) {
    Buffers buffers(request, rank, 2);
    std::byte* heap = job.heap(rank);
    std::memcpy(heap, buffers.input.data(), 400000);
    const auto done = job.executors[rank]->run(plan, {heap, heap + 400000},
                                               signature_of(request, 0), milliseconds(20000));
    ASSERT_TRUE(done) << done.error().sentence;
    EXPECT_EQ(std::memcmp(heap + 400000, buffers.expected.data(), 400000), 0);
    // The first word of the staging space was never written.
    const auto* staging = job.arenas[rank]->data() + ArenaLayout::of(2).staging;
    EXPECT_EQ(*reinterpret_cast<const uint64_t*>(staging), 0u);
  });
}

TEST(HostExecutor, ARootMayWorkInPlaceAlone) {
  HostJob job(4);
  Request request = request_of(CCOM_BROADCAST, CCOM_ALGORITHM_AUTO, 5000, 4);
  uint64_t number = 0;
  for (const auto algorithm : job.planner.candidates(request)) {
    request.algorithm = algorithm;
    request.in_place = false;
    const auto others = job.plan(request);
    request.in_place = true;
    const auto root = job.plan(request);
    ++number;
    job.on_all([&](Rank rank) {
      Buffers buffers(request, rank, 4);
      Operands operands = buffers.operands();
      if (rank == request.root) {
        operands.output = reinterpret_cast<std::byte*>(buffers.input.data());
      }
      const auto done = job.executors[rank]->run(rank == request.root ? root : others, operands,
                                                 signature_of(request, number), milliseconds(5000));
      ASSERT_TRUE(done) << done.error().sentence;
      EXPECT_EQ(rank == request.root ? buffers.input : buffers.output, buffers.expected)
          << algorithm_name(algorithm);
    });
  }
  EXPECT_GT(number, 3u);
}

// Rank i has 3 + 5 * i elements, with gaps between them in the whole vector.
Request uneven_request(ccom_operation_t operation, ccom_algorithm_t algorithm, uint32_t ranks) {
  Request request;
  request.operation = operation;
  request.type = CCOM_INT32;
  request.algorithm = algorithm;
  for (Rank rank = 0; rank < ranks; ++rank) {
    request.counts.push_back(3 + 5 * rank);
    request.displacements.push_back(40 * rank + 2);
  }
  return request;
}

TEST(HostExecutor, GathersAndScattersUnevenBlocks) {
  constexpr uint32_t kRanks = 4;
  HostJob job(kRanks);
  uint64_t number = 0;
  for (const auto operation : {CCOM_ALL_GATHER_V, CCOM_REDUCE_SCATTER_V}) {
    for (const auto algorithm :
         job.planner.candidates(uneven_request(operation, CCOM_ALGORITHM_AUTO, kRanks))) {
      const Request request = uneven_request(operation, algorithm, kRanks);
      const auto plan = job.plan(request);
      const uint64_t own_number = number++;
      job.on_all([&](Rank rank) {
        const bool gathers = operation == CCOM_ALL_GATHER_V;
        std::vector<int32_t> input(200), output(200, -1), expected(200, -1);
        for (uint32_t i = 0; i < 200; ++i) input[i] = static_cast<int32_t>(1000 * rank + i);
        for (Rank from = 0; from < kRanks && gathers; ++from) {
          for (uint32_t i = 0; i < request.counts[from]; ++i) {
            expected[request.displacements[from] + i] = static_cast<int32_t>(1000 * from + i);
          }
        }
        for (uint32_t i = 0; i < request.counts[rank] && !gathers; ++i) {
          expected[i] = static_cast<int32_t>(6000 + 4 * (request.displacements[rank] + i));
        }
        const auto done =
            job.executors[rank]->run(plan,
                                     {reinterpret_cast<std::byte*>(input.data()),
                                      reinterpret_cast<std::byte*>(output.data())},
                                     signature_of(request, own_number), milliseconds(5000));
        ASSERT_TRUE(done) << done.error().sentence;
        EXPECT_EQ(output, expected)
            << operation_name(operation) << " " << algorithm_name(algorithm) << " on rank " << rank;
      });
    }
  }
  EXPECT_GT(number, 2u);
}

TEST(HostExecutor, AveragesInTheOrderOfRanks) {
  HostJob job(3);
  Request request;
  request.operation = CCOM_ALL_REDUCE;
  request.type = CCOM_INT32;
  request.reduction = CCOM_AVERAGE;
  request.count = 1000;
  for (const auto algorithm : {CCOM_MESH, CCOM_RING}) {
    request.algorithm = algorithm;
    const auto plan = job.plan(request);
    const uint64_t number = algorithm;
    job.on_all([&](Rank rank) {
      std::vector<int32_t> input(1000, -static_cast<int32_t>(rank) - 1), output(1000);
      ASSERT_TRUE(job.executors[rank]->run(
          plan,
          {reinterpret_cast<std::byte*>(input.data()), reinterpret_cast<std::byte*>(output.data())},
          signature_of(request, number), milliseconds(20000)));
      EXPECT_EQ(output, std::vector<int32_t>(1000, -2));
    });
  }
}

TEST(HostExecutor, RunsStartedCollectivesOfSeveralStreamsAtOnce) {
  HostJob job(3);
  std::vector<Case> cases;
  for (uint32_t i = 0; i < 24; ++i) {
    const auto operation = i % 3 == 0   ? CCOM_ALL_REDUCE
                           : i % 3 == 1 ? CCOM_BROADCAST
                                        : CCOM_ALL_TO_ALL;
    Case made{request_of(operation, CCOM_MESH, 10 + i * 700, 3), nullptr, {}};
    made.plan = job.plan(made.request);
    made.signature = signature_of(made.request, i / CCOM_MAX_STREAMS,
                                  static_cast<uint8_t>(i % CCOM_MAX_STREAMS));
    cases.push_back(made);
  }
  job.on_all([&](Rank rank) {
    std::vector<std::unique_ptr<Buffers>> buffers;
    std::vector<std::unique_ptr<Execution>> executions;
    for (const Case& each : cases) {
      buffers.push_back(std::make_unique<Buffers>(each.request, rank, 3));
      auto started =
          job.executors[rank]->start(each.plan, buffers.back()->operands(), each.signature);
      ASSERT_TRUE(started) << started.error().sentence;
      executions.push_back(std::move(*started));
    }
    const base::Deadline deadline = base::Deadline::after(milliseconds(20000));
    // Asked for in different orders.
    for (size_t i = 0; i < cases.size(); ++i) {
      const size_t at = rank == 0 ? i : cases.size() - 1 - i;
      while (executions[at]->advance() == Outcome::kNotYet && !deadline.expired()) {
        std::this_thread::yield();
      }
      EXPECT_EQ(executions[at]->advance(), Outcome::kDone) << executions[at]->failure().sentence;
      EXPECT_EQ(buffers[at]->output, buffers[at]->expected);
    }
  });
}

Error failure_of(HostJob& job, Rank rank, const Request& request, uint64_t number,
                 milliseconds patience = milliseconds(5000)) {
  Buffers buffers(request, rank, job.ranks());
  const auto done = job.executors[rank]->run(job.plan(request), buffers.operands(),
                                             signature_of(request, number), patience);
  return done ? Error{CCOM_SUCCESS, {}} : done.error();
}

TEST(HostExecutor, NamesBothCallsWhereRanksDisagreeAboutTheCount) {
  HostJob job(2);
  std::vector<Error> errors(2);
  job.on_all([&](Rank rank) {
    errors[rank] = failure_of(job, rank, request_of(CCOM_ALL_REDUCE, CCOM_MESH, 100 + rank, 2), 0);
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.status, CCOM_MISMATCH);
    EXPECT_THAT(error.sentence, testing::HasSubstr("100 int32"));
    EXPECT_THAT(error.sentence, testing::HasSubstr("101 int32"));
  }
}

TEST(HostExecutor, CountsStepsUpwardsOverVeryManyCollectives) {
  constexpr uint32_t kMost = (1u << kPositionBits) - 1;
  for (const uint64_t number : {uint64_t{1}, uint64_t{1} << 32, (uint64_t{1} << 40) - 1}) {
    EXPECT_GT(channel_word(number, 0), channel_word(number - 1, kMost));
  }
}

TEST(HostExecutor, ATimeoutOfACallGoesBeforeThatOfTheCommunicator) {
  HostJob job(2, false, true, milliseconds(20));
  const Request request = request_of(CCOM_ALL_REDUCE, CCOM_RING, 1000, 2);
  for (uint64_t number = 0; number < 2; ++number) {
    const auto plan = job.plan(request);
    job.on_all([&](Rank rank) {
      if (rank == 1) {
        std::this_thread::sleep_for(milliseconds(100));
      }
      Buffers buffers(request, rank, 2);
      const Signature signature = signature_of(request, number);
      if (number == 0) {
        const auto done =
            job.executors[rank]->run(plan, buffers.operands(), signature, milliseconds(20000));
        EXPECT_TRUE(done) << done.error().sentence;
        return;
      }
      auto started =
          job.executors[rank]->start(plan, buffers.operands(), signature, milliseconds(20000));
      ASSERT_TRUE(started) << started.error().sentence;
      while ((*started)->advance() == Outcome::kNotYet) {
        std::this_thread::yield();
      }
      EXPECT_EQ((*started)->advance(), Outcome::kDone) << (*started)->failure().sentence;
    });
  }
}

TEST(HostExecutor, NamesBothCallsWhereRanksThatNeverMeetDisagree) {
  HostJob job(3);
  std::vector<Error> errors(3);
  // Rank 2 broadcasts to itself alone, as it sees it, and the ring waits for it.
  job.on_all([&](Rank rank) {
    errors[rank] = failure_of(job, rank,
                              rank == 2 ? request_of(CCOM_BROADCAST, CCOM_MESH, 100, 3)
                                        : request_of(CCOM_ALL_GATHER, CCOM_RING, 50000, 3),
                              0);
  });
  EXPECT_EQ(errors[0].status, CCOM_MISMATCH);
  EXPECT_THAT(errors[0].sentence, testing::HasSubstr("rank 2"));
  EXPECT_THAT(errors[0].sentence, testing::HasSubstr("broadcast 0"));
  EXPECT_THAT(errors[0].sentence, testing::HasSubstr("all_gather 0"));
  EXPECT_EQ(errors[1].status, CCOM_MISMATCH);
}

// Rank 0 of the ring waits for rank 2, which calls nothing, so that it does not meet rank 1 itself.
const Request kRingOfThree = request_of(CCOM_ALL_GATHER, CCOM_RING, 50000, 3);

TEST(HostExecutor, ADisagreementIsToldWhereTheDeadlineComesBeforeCallsAreCompared) {
  HostJob job(3);
  const milliseconds patience(2);
  (void)failure_of(job, 1, request_of(CCOM_BROADCAST, CCOM_MESH, 100, 3), 0, patience);
  const Error error = failure_of(job, 0, kRingOfThree, 0, patience);
  EXPECT_EQ(error.status, CCOM_MISMATCH) << error.sentence;
  EXPECT_THAT(error.sentence, testing::HasSubstr("broadcast 0"));
}

TEST(HostExecutor, ADisagreementThatComesAfterCallsWereComparedIsToldLongBeforeTheDeadline) {
  HostJob job(3);
  const auto begun = std::chrono::steady_clock::now();
  Error error{CCOM_SUCCESS, {}};
  job.on_all([&](Rank rank) {
    if (rank == 0) error = failure_of(job, 0, kRingOfThree, 0, milliseconds(60000));
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(200));
      (void)failure_of(job, 1, request_of(CCOM_BROADCAST, CCOM_MESH, 100, 3), 0, milliseconds(2));
    }
  });
  EXPECT_EQ(error.status, CCOM_MISMATCH) << error.sentence;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(30000));
}

TEST(HostExecutor, ARankThatLeftIsNotWaitedForUntilTheDeadline) {
  for (const bool apart : {false, true}) {
    HostJob job(3, apart, true, milliseconds(600000));
    const Request request = request_of(CCOM_ALL_REDUCE, CCOM_MESH, 100, 3);
    job.on_all([&](Rank rank) { EXPECT_EQ(failure_of(job, rank, request, 7).sentence, ""); });
    job.executors[2].reset();
    std::vector<Error> errors(2);
    job.on_all([&](Rank rank) {
      if (rank != 2) errors[rank] = failure_of(job, rank, request, 8);
    });
    for (const Error& error : errors) {
      EXPECT_EQ(error.status, CCOM_ABORTED);
      EXPECT_THAT(error.sentence, testing::HasSubstr("rank 2 ("));
      EXPECT_THAT(error.sentence, testing::HasSubstr("left the communicator and never began"));
      EXPECT_THAT(error.sentence, testing::HasSubstr("has done its part of all_reduce 7"));
    }
  }
}

TEST(HostExecutor, WhatARankThatLeftHasDoneIsThere) {
  HostJob job(2, true);
  const Request request = request_of(CCOM_BROADCAST, CCOM_MESH, 4, 2);
  Buffers root(request, 1, 2), other(request, 0, 2);
  const auto plan = job.plan(request);
  ASSERT_TRUE(
      job.executors[1]->run(plan, root.operands(), signature_of(request, 0), milliseconds(20000)));
  job.executors[1].reset();
  const auto done =
      job.executors[0]->run(plan, other.operands(), signature_of(request, 0), milliseconds(20000));
  EXPECT_TRUE(done) << done.error().sentence;
  EXPECT_EQ(other.output, other.expected);
}

TEST(HostExecutor, NamesWhoIsMissingAndWhatItDidLast) {
  HostJob job(3, false, true, milliseconds(100));
  const Request request = request_of(CCOM_ALL_REDUCE, CCOM_MESH, 100, 3);
  job.on_all([&](Rank rank) { EXPECT_EQ(failure_of(job, rank, request, 7).sentence, ""); });
  std::vector<Error> errors(2);
  job.on_all([&](Rank rank) {
    if (rank != 2) errors[rank] = failure_of(job, rank, request, 8);
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.status, CCOM_TIMEOUT);
    EXPECT_THAT(error.sentence, testing::HasSubstr("rank 2 ("));
    EXPECT_THAT(error.sentence, testing::HasSubstr("has done its part of all_reduce 7"));
    EXPECT_THAT(error.sentence, testing::HasSubstr("shared memory"));
  }
}

// The shortest of three: a host that does other work delays one of them, and makes none shorter.
TEST(HostExecutor, EndsWithinAHundredMillisecondsOfTheDeathOfARank) {
  auto least = base::Clock::duration::max();
  for (int round = 0; round < 3; ++round) {
    HostJob job(2);
    const Request request = request_of(CCOM_ALL_REDUCE, CCOM_RING, 100, 2);
    base::Clock::time_point died;
    std::thread killer([&] {
      std::this_thread::sleep_for(milliseconds(20));
      died = base::Clock::now();
      job.interrupted[0] = 1;
    });
    const Error error = failure_of(job, 0, request, 0);
    const auto ended = base::Clock::now();
    killer.join();
    EXPECT_EQ(error.status, CCOM_RANK_DEAD);
    least = std::min(least, ended - died);
  }
  EXPECT_LT(least, milliseconds(100));
}

}  // namespace
}  // namespace neuron::ccom
