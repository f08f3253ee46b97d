// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <new>

#include "ccom/request/names.h"
#include "tests/unit/ccom/progress/network_job.h"
#include "tests/unit/ccom/proof/written_schedule.h"

// The thread sanitizer of clang 14 has operators new and delete of its own, which no program that
// is linked with it can replace.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OPERATORS_OF_THE_SANITIZER 1
#endif
#endif

namespace {

// Of this thread, before one fails; negative: none does.
thread_local int64_t allocations_left = -1;

#ifndef OPERATORS_OF_THE_SANITIZER
void* allocate(size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
#endif

}  // namespace

#ifndef OPERATORS_OF_THE_SANITIZER
void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace neuron::ccom {
namespace {

// Of a collective that cannot end: enough for the others to answer on a busy machine.
constexpr milliseconds kShort{500};

Request network_request(ccom_operation_t operation, ccom_algorithm_t algorithm, uint64_t count,
                        uint32_t ranks) {
  Request request;
  request.operation = operation;
  request.type = CCOM_INT32;
  request.algorithm = algorithm;
  request.count = operation == CCOM_BARRIER ? 0 : count;
  request.root = operation == CCOM_BROADCAST || operation == CCOM_REDUCE ||
                         operation == CCOM_GATHER || operation == CCOM_SCATTER
                     ? ranks - 1
                     : 0;
  if (operation == CCOM_SEND_RECEIVE) {
    request.pairs = {{0, ranks - 1}};
  } else if (operation == CCOM_PERMUTE) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      request.pairs.push_back({rank, (rank + 1) % ranks});
    }
  }
  return request;
}

// Every operation with every algorithm that can do it, one after the other on one job; ranks may be
// some collectives ahead of one another.
void run_everything_over_network(uint32_t ranks, const std::string& provider,
                                 const std::vector<uint64_t>& counts, uint32_t ranks_per_host = 1) {
  NetworkJob job(ranks, provider, ranks_per_host);
  for (const Error& error : job.errors) {
    ASSERT_EQ(error.sentence, "");
  }
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int kind = 0; kind < CCOM_ALL_GATHER_V; ++kind) {
    const auto operation = static_cast<ccom_operation_t>(kind);
    for (const uint64_t count : counts) {
      for (const auto algorithm :
           job.planner.candidates(network_request(operation, CCOM_ALGORITHM_AUTO, count, ranks))) {
        plans.push_back(job.plan(network_request(operation, algorithm, count, ranks)));
        ASSERT_NE(plans.back(), nullptr);
      }
    }
  }
  std::atomic<size_t> right{0};
  job.on_all([&](Rank rank) {
    for (uint64_t i = 0; i < plans.size(); ++i) {
      const Request& request = plans[i]->request;
      Buffers buffers(request, rank, ranks);
      const auto done = job.executors[rank]->run(plans[i], buffers.operands(),
                                                 signature_of(request, i), milliseconds(20000));
      ASSERT_TRUE(done) << done.error().sentence;
      ASSERT_EQ(buffers.output, buffers.expected)
          << operation_name(request.operation) << " " << algorithm_name(request.algorithm) << " of "
          << request.count << " on rank " << rank;
      ++right;
    }
  });
  EXPECT_EQ(right, plans.size() * ranks);
  EXPECT_GT(right, 0u);
}

TEST(NetworkExecutor, DoesEveryOperationOfTwoRanksOverTcp) {
  run_everything_over_network(2, "tcp", {0, 1, 5000, 70000});
}

TEST(NetworkExecutor, DoesEveryOperationOfFiveRanksOverTcp) {
  run_everything_over_network(5, "tcp", {1, 9000});
}

TEST(NetworkExecutor, DoesEveryOperationOverTheProviderNet) {
  run_everything_over_network(3, "net", {1, 9000});
}

TEST(NetworkExecutor, DoesEveryOperationOverStreams) {
  run_everything_over_network(2, "stream", {0, 1, 5000, 70000});
  run_everything_over_network(5, "stream", {1, 9000});
  run_everything_over_network(4, "stream", {1, 90000}, 2);
}

TEST(NetworkExecutor, DoesEveryOperationWithTheMannersOfEfa) {
  run_everything_over_network(3, "rough+tcp", {1, 9000});
  run_everything_over_network(3, "rough+stream", {1, 9000});
}

TEST(NetworkExecutor, MixesSharedMemoryWithinHostsAndTheNetworkBetweenThem) {
  run_everything_over_network(4, "tcp", {1, 9000}, 2);
}

TEST(NetworkExecutor, WritesBothResultsOfADuplicate) {
  NetworkJob job(4, "tcp", 2);
  const Request request = network_request(CCOM_ALL_GATHER, CCOM_RECURSIVE, 3000, 4);
  Plan plan = *job.plan(request);
  auto schedule = std::make_shared<WrittenSchedule>(*plan.schedule);
  ASSERT_GE(send_duplicates(*schedule), 4u);
  plan.schedule = schedule;
  const auto shared = std::make_shared<const Plan>(plan);
  job.on_all([&](Rank rank) {
    Buffers buffers(request, rank, 4);
    const auto done = job.executors[rank]->run(shared, buffers.operands(), signature_of(request, 0),
                                               milliseconds(20000));
    ASSERT_TRUE(done) << done.error().sentence;
    EXPECT_EQ(buffers.output, buffers.expected) << "rank " << rank;
  });
}

TEST(NetworkExecutor, DoesNothingForAGroupOfOne) { run_everything_over_network(1, "tcp", {0, 10}); }

class NetworkExecutorOver : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Providers, NetworkExecutorOver, testing::Values("tcp", "stream"));

TEST_P(NetworkExecutorOver, RunsCollectivesOfAllStreamsAtTheSameTimeWithoutTheCaller) {
  constexpr uint32_t kRanks = 3;
  NetworkJob job(kRanks, GetParam());
  const Request request = network_request(CCOM_ALL_REDUCE, CCOM_RING, 20000, kRanks);
  const auto plan = job.plan(request);
  job.on_all([&](Rank rank) {
    std::vector<std::unique_ptr<Buffers>> buffers;
    std::vector<std::unique_ptr<Execution>> executions;
    for (uint64_t i = 0; i < 12; ++i) {
      buffers.push_back(std::make_unique<Buffers>(request, rank, kRanks));
      const uint8_t stream = i % CCOM_MAX_STREAMS;
      auto started = job.executors[rank]->start(
          plan, buffers.back()->operands(), signature_of(request, i / CCOM_MAX_STREAMS, stream));
      ASSERT_TRUE(started) << started.error().sentence;
      executions.push_back(std::move(*started));
    }
    const base::Deadline deadline = base::Deadline::after(milliseconds(20000));
    for (size_t i = 0; i < executions.size(); ++i) {
      while (executions[i]->advance() == Outcome::kNotYet && !deadline.expired()) {
        std::this_thread::yield();
      }
      EXPECT_EQ(buffers[i]->output, buffers[i]->expected);
    }
  });
}

TEST_P(NetworkExecutorOver, LetsTheProxyFinishWhatTheCallerDoesNotLookAt) {
  NetworkJob job(2, GetParam());
  const Request request = network_request(CCOM_ALL_REDUCE, CCOM_RING, 100000, 2);
  const auto plan = job.plan(request);
  std::atomic<uint32_t> finished{0};
  job.on_all([&](Rank rank) {
    Buffers buffers(request, rank, 2);
    auto started = job.executors[rank]->start(plan, buffers.operands(), signature_of(request, 0));
    ASSERT_TRUE(started);
    if (rank == 0) {
      // This rank computes until the other, which looks, has its result.
      const base::Deadline deadline = base::Deadline::after(milliseconds(10000));
      while (finished == 0 && !deadline.expired()) {
        std::this_thread::yield();
      }
    } else {
      const base::Deadline deadline = base::Deadline::after(milliseconds(10000));
      while ((*started)->advance() == Outcome::kNotYet && !deadline.expired()) {
        std::this_thread::yield();
      }
      EXPECT_EQ(buffers.output, buffers.expected);
      ++finished;
    }
    const base::Deadline deadline = base::Deadline::after(milliseconds(10000));
    while ((*started)->advance() == Outcome::kNotYet && !deadline.expired()) {
      std::this_thread::yield();
    }
    EXPECT_EQ(buffers.output, buffers.expected);
  });
  EXPECT_EQ(finished, 1u);
}

TEST_P(NetworkExecutorOver, ATimeoutOfACallGoesBeforeThatOfTheCommunicator) {
  NetworkJob job(2, GetParam(), 1, milliseconds(20));
  const Request request = network_request(CCOM_ALL_REDUCE, CCOM_RING, 1000, 2);
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

// Runs a request on each rank (its own), and returns the errors.
std::vector<Error> fail_with(NetworkJob& job, const std::function<Request(Rank)>& of,
                             milliseconds deadline, const std::vector<Rank>& absent = {}) {
  std::vector<Error> errors(job.ranks());
  std::atomic<uint32_t> ended{0};
  job.on_all([&](Rank rank) {
    if (std::find(absent.begin(), absent.end(), rank) == absent.end()) {
      const Request request = of(rank);
      const auto plan = job.plan(request);
      Buffers buffers(request, rank, job.ranks());
      const auto done =
          job.executors[rank]->run(plan, buffers.operands(), signature_of(request, 7), deadline);
      if (!done) {
        errors[rank] = done.error();
      }
    }
    // Absent ranks stay, and answer, as long as others wait for them.
    ++ended;
    while (ended < job.ranks()) {
      std::this_thread::sleep_for(milliseconds(1));  // the threads that answer need the processors
    }
  });
  return errors;
}

// Ranks have under a second to answer those that ask them at a deadline. On a host that gives them
// no processor for so long they are told to be silent, which is right, and not what is tested.
bool some_are_silent(const std::vector<Error>& errors) {
  return std::any_of(errors.begin(), errors.end(), [](const Error& error) {
    return error.sentence.find("does not answer") != std::string::npos;
  });
}

TEST_P(NetworkExecutorOver, NamesTheMissingRankItsLastOperationAndTheConnectionAtTheDeadline) {
  std::vector<Error> errors;
  for (int attempt = 0; attempt < 5 && (attempt == 0 || some_are_silent(errors)); ++attempt) {
    NetworkJob job(3, GetParam());
    errors = fail_with(
        job, [](Rank) { return network_request(CCOM_ALL_REDUCE, CCOM_RING, 100, 3); }, kShort, {1});
  }
  for (const Rank rank : {0u, 2u}) {
    EXPECT_EQ(errors[rank].status, CCOM_TIMEOUT);
    EXPECT_NE(errors[rank].sentence.find("all_reduce 7 of stream 0"), std::string::npos)
        << errors[rank].sentence;
    EXPECT_NE(errors[rank].sentence.find("never began it: it has begun nothing on stream 0"),
              std::string::npos)
        << errors[rank].sentence;
  }
  // Rank 2 waits for rank 1, its neighbour.
  EXPECT_NE(
      errors[2].sentence.find(GetParam() + (GetParam() == "tcp" ? ";ofi_rxm" : " on 127.0.0.1")),
      std::string::npos)
      << errors[2].sentence;
  EXPECT_NE(errors[2].sentence.find("rank 1"), std::string::npos) << errors[2].sentence;
}

TEST(NetworkExecutor, ReportsBothCallsWhenRanksDisagreeAboutTheCount) {
  for (const std::string provider : {"tcp", "rough+tcp", "stream"}) {
    for (const uint64_t count : {100u, 30000u}) {
      NetworkJob job(2, provider);
      const auto errors = fail_with(
          job,
          [&](Rank rank) {
            return network_request(CCOM_ALL_REDUCE, CCOM_RING, rank == 0 ? count : count + 2000, 2);
          },
          milliseconds(10000));
      for (Rank rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(errors[rank].status, CCOM_MISMATCH) << errors[rank].sentence;
        for (const uint64_t side : {count, count + 2000}) {
          EXPECT_NE(errors[rank].sentence.find(std::to_string(side) + " int32"), std::string::npos)
              << errors[rank].sentence;
        }
      }
    }
  }
}

TEST_P(NetworkExecutorOver, ReportsBothCallsWhenNothingArrives) {
  // Both send to each other and receive nothing that they wait for: a root waits for nobody.
  NetworkJob job(2, GetParam());
  const auto errors = fail_with(
      job,
      [&](Rank rank) {
        return rank == 0 ? network_request(CCOM_ALL_REDUCE, CCOM_RING, 10, 2)
                         : network_request(CCOM_ALL_GATHER, CCOM_RING, 50000, 2);
      },
      milliseconds(10000));
  for (Rank rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(errors[rank].status, CCOM_MISMATCH) << errors[rank].sentence;
    EXPECT_NE(errors[rank].sentence.find("all_gather"), std::string::npos);
    EXPECT_NE(errors[rank].sentence.find("all_reduce"), std::string::npos);
  }
}

TEST_P(NetworkExecutorOver, EndsWithTheReasonOfTheInterruptionAndStaysFailed) {
  NetworkJob job(2, GetParam());
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(5));
    job.interrupted[0] = 1;
  });
  const Request request = network_request(CCOM_ALL_REDUCE, CCOM_RING, 100000, 2);
  const auto plan = job.plan(request);
  Buffers buffers(request, 0, 2);
  const auto done = job.executors[0]->run(plan, buffers.operands(), signature_of(request, 0),
                                          milliseconds(10000));
  killer.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().status, CCOM_RANK_DEAD);
  const auto again = job.executors[0]->start(plan, buffers.operands(), signature_of(request, 1));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().sentence, done.error().sentence);
}

TEST_P(NetworkExecutorOver, EndsLongBeforeTheDeadlineWhenARankHasLeftThatNeverBeganIt) {
  NetworkJob job(2, GetParam());
  const Request small = network_request(CCOM_ALL_REDUCE, CCOM_RING, 10, 2);
  const auto plan = job.plan(small);
  job.on_all([&](Rank rank) {
    Buffers buffers(small, rank, 2);
    EXPECT_TRUE(job.executors[rank]->run(plan, buffers.operands(), signature_of(small, 0),
                                         milliseconds(10000)));
  });
  job.executors[1].reset();
  Buffers buffers(small, 0, 2);
  const base::Moment begin = base::Clock::now();
  const auto done =
      job.executors[0]->run(plan, buffers.operands(), signature_of(small, 1), milliseconds(20000));
  EXPECT_LT(base::Clock::now() - begin, milliseconds(10000));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().status, CCOM_ABORTED);
  const std::string& sentence = done.error().sentence;
  EXPECT_NE(sentence.find("left the communicator and never began"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("rank 1"), std::string::npos) << sentence;
}

// The last messages of a rank that leaves are still those of a collective.
TEST_P(NetworkExecutorOver, ARankThatLeavesAfterItsPartIsNotMissed) {
  const Request request = network_request(CCOM_ALL_GATHER, CCOM_MESH, 3000, 3);
  for (int turn = 0; turn < 3; ++turn) {
    NetworkJob job(3, GetParam());
    const auto plan = job.plan(request);
    job.on_all([&](Rank rank) {
      for (uint64_t i = 0; i < 3; ++i) {
        Buffers buffers(request, rank, 3);
        const auto done = job.executors[rank]->run(plan, buffers.operands(),
                                                   signature_of(request, i), milliseconds(10000));
        ASSERT_TRUE(done) << done.error().sentence;
        ASSERT_EQ(buffers.output, buffers.expected);
      }
      job.executors[rank].reset();
    });
  }
}

TEST_P(NetworkExecutorOver, SaysHowMuchMemoryThereIsNotAndGoesOn) {
  NetworkJob job(2, GetParam());
  const Request request = network_request(CCOM_ALL_REDUCE, CCOM_RING, 10, 2);
  const auto plan = job.plan(request);
  Buffers idle(request, 0, 2);
  const Request gigantic =
      network_request(CCOM_ALL_REDUCE, CCOM_ONE_STEP_MESH, uint64_t{1} << 45, 2);
  const auto refused = job.executors[0]->run(job.plan(gigantic), idle.operands(),
                                             signature_of(gigantic, 0), milliseconds(10000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, CCOM_RESOURCE);
  EXPECT_NE(refused.error().sentence.find("scratch"), std::string::npos)
      << refused.error().sentence;
  job.on_all([&](Rank rank) {
    Buffers buffers(request, rank, 2);
    const auto done = job.executors[rank]->run(plan, buffers.operands(), signature_of(request, 0),
                                               milliseconds(10000));
    ASSERT_TRUE(done) << done.error().sentence;
    EXPECT_EQ(buffers.output, buffers.expected);
  });
}

// Wherever memory ends on one rank, its call ends with a status and leaves nothing behind.
TEST_P(NetworkExecutorOver, EveryAllocationOfACollectiveMayFail) {
#ifdef OPERATORS_OF_THE_SANITIZER
  GTEST_SKIP() << "allocations cannot be made to fail in a program with this thread sanitizer";
#endif
  const Request request = network_request(CCOM_ALL_REDUCE, CCOM_RING, 3000, 2);
  uint32_t failed = 0;
  bool went_through = false;
  for (int64_t allocation = 0; allocation < 60 && !went_through; allocation += 2) {
    NetworkJob job(2, GetParam(), 1, milliseconds(2000));
    const auto plan = job.plan(request);
    job.on_all([&](Rank rank) {
      Buffers buffers(request, rank, 2);
      if (rank == 0) allocations_left = allocation;
      ccom_status_t status = CCOM_SUCCESS;
      try {
        const auto done = job.executors[rank]->run(plan, buffers.operands(),
                                                   signature_of(request, 0), milliseconds(2000));
        if (rank == 0) {
          went_through = allocations_left > 0;
          allocations_left = -1;
        }
        if (!done) status = done.error().status;
      } catch (const std::bad_alloc&) {
        // For the C interface, which says CCOM_RESOURCE.
        allocations_left = -1;
        status = CCOM_RESOURCE;
      }
      if (rank == 0) {
        EXPECT_TRUE(status == CCOM_SUCCESS || status == CCOM_RESOURCE) << status;
        if (status != CCOM_SUCCESS) {
          ++failed;
          // As the communicator does.
          job.interrupted[1] = 1;
        }
      }
    });
  }
  EXPECT_GT(failed, 0u);
  EXPECT_TRUE(went_through);
}

TEST(NetworkExecutor, IsRefusedOnAllRanksWhenAProviderIsNotThere) {
  NetworkJob job(2, "gigantic,verbs");
  for (const Error& error : job.errors) {
    EXPECT_EQ(error.status, CCOM_UNSUPPORTED);
    EXPECT_NE(error.sentence.find("gigantic"), std::string::npos) << error.sentence;
    EXPECT_NE(error.sentence.find("this host has"), std::string::npos) << error.sentence;
  }
}

}  // namespace
}  // namespace neuron::ccom
