// SPDX-License-Identifier: Apache-2.0
// Communicators that change while their processes go on: ranks that join, revocation, and memory
// that is given back for a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ccom/bootstrap/address.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"
#include "tests/unit/ccom/api/job.h"
#include "tests/unit/ccom/api/ranks.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr uint32_t kWithoutSharing = CCOM_FLAG_NO_SHARED_MEMORY;

ccom_options_t options_of(const std::string& root, uint32_t flags, uint32_t timeout_ms = 20000) {
  ccom_options_t options = quick_options();
  options.root = root.c_str();
  options.flags = flags;
  options.timeout_ms = timeout_ms;
  if ((flags & kWithoutSharing) != 0) options.providers = "tcp";
  return options;
}

// The sum of rank + 1 over all ranks; CCOM_MISMATCH: it is another one.
ccom_status_t reduce(ccom_comm_t* comm) {
  const float size = static_cast<float>(ccom_size(comm));
  std::vector<float> values(3000, static_cast<float>(ccom_rank(comm) + 1));
  const ccom_collective_t call = all_reduce(values);
  const ccom_status_t status = ccom_run(comm, &call);
  if (status != CCOM_SUCCESS) return status;
  return std::count(values.begin(), values.end(), size * (size + 1) / 2) == 3000 ? CCOM_SUCCESS
                                                                                 : CCOM_MISMATCH;
}

// A rank that comes when the others grow to `size`, and reduces with them.
test::Child newcomer(uint32_t rank, uint32_t size, const std::string& root, uint32_t flags) {
  return test::Child::forked([&] {
    const ccom_options_t options = options_of(root, flags);
    ccom_comm_t* comm = nullptr;
    if (ccom_init(rank, size, &options, &comm) != CCOM_SUCCESS || reduce(comm) != CCOM_SUCCESS) {
      fprintf(stderr, "newcomer %u: %s\n", rank, ccom_last_error());
      return 1;
    }
    return ccom_free(comm) == CCOM_SUCCESS ? 0 : 2;
  });
}

class Elastic : public testing::TestWithParam<uint32_t> {};

TEST_P(Elastic, RanksJoinThoseThatAreThereAndTheOldCommunicatorGoesOn) {
  const uint32_t flags = GetParam();
  const std::string root = free_address();
  Job job(
      2, 20000,
      [&](ccom_comm_t* comm, uint32_t rank, int report) {
        ccom_status_t status = reduce(comm);
        ccom_comm_t* grown = nullptr;
        if (status == CCOM_SUCCESS) status = ccom_grow(comm, 4, root.c_str(), &grown);
        if (status == CCOM_SUCCESS && (ccom_rank(grown) != rank || ccom_size(grown) != 4)) {
          status = CCOM_MISMATCH;
        }
        if (status == CCOM_SUCCESS) status = reduce(grown);
        if (status == CCOM_SUCCESS) status = reduce(comm);
        // Once more, now to the first address, which is free again.
        if (status == CCOM_SUCCESS) status = ccom_free(grown);
        if (status == CCOM_SUCCESS) status = ccom_grow(comm, 3, nullptr, &grown);
        if (status == CCOM_SUCCESS) status = reduce(grown);
        Job::tell(report, rank, status);
        ccom_free(grown);
      },
      flags);
  test::Child third = newcomer(2, 4, root, flags), fourth = newcomer(3, 4, root, flags);
  EXPECT_EQ(third.wait(), 0);
  EXPECT_EQ(fourth.wait(), 0);
  test::Child last = newcomer(2, 3, job.root(), flags);
  EXPECT_EQ(last.wait(), 0);
  for (int i = 0; i < 2; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    EXPECT_EQ(said.status, CCOM_SUCCESS) << said.rank << ": " << said.sentence;
  }
}

// Rank 0 itself is killed: the address of the new rank 0 is another one.
TEST_P(Elastic, ARankTakesThePlaceOfOneThatWasKilled) {
  const uint32_t flags = GetParam();
  const std::string root = free_address();
  Job job(
      3, 20000,
      [&](ccom_comm_t* comm, uint32_t rank, int report) {
        Job::tell(report, rank, CCOM_SUCCESS);
        ccom_status_t status = CCOM_SUCCESS;
        while (status == CCOM_SUCCESS) status = reduce(comm);
        ccom_comm_t *rest = nullptr, *grown = nullptr;
        if (status == CCOM_RANK_DEAD) status = ccom_shrink(comm, &rest);
        if (status == CCOM_SUCCESS) status = ccom_grow(rest, 3, root.c_str(), &grown);
        if (status == CCOM_SUCCESS) status = reduce(grown);
        Job::tell(report, rank, status);
        poll(nullptr, 0, 20000);
      },
      flags);
  Report said;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    ASSERT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
  }
  kill(job.child(0), SIGKILL);
  test::Child replacement = newcomer(2, 3, root, flags);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    EXPECT_EQ(said.status, CCOM_SUCCESS) << said.rank << ": " << said.sentence;
  }
  EXPECT_EQ(replacement.wait(), 0);
}

TEST(ElasticThreads, OfAProcessGrowByOnesThatComeByAddress) {
  const std::string root = free_address();
  Ranks ranks(2);
  std::thread third([&] {
    const ccom_options_t options = options_of(root, 0);
    ccom_comm_t* comm = nullptr;
    ASSERT_EQ(ccom_init(2, 3, &options, &comm), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(reduce(comm), CCOM_SUCCESS) << ccom_last_error();
    ccom_free(comm);
  });
  ranks.each([&](ccom_comm_t* comm, uint32_t) {
    ccom_comm_t* grown = nullptr;
    ASSERT_EQ(ccom_grow(comm, 3, root.c_str(), &grown), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(reduce(grown), CCOM_SUCCESS) << ccom_last_error();
    ccom_free(grown);
  });
  third.join();
}

TEST(ElasticThreads, ThatDisagreeAboutGrowthOrGrowByNobodyAreTold) {
  const std::string root = free_address();
  ccom_options_t options = quick_options();
  options.timeout_ms = 700;
  Ranks ranks(2, options);
  ranks.each([&](ccom_comm_t* comm, uint32_t rank) {
    ccom_comm_t* grown = nullptr;
    EXPECT_EQ(ccom_grow(comm, 2, root.c_str(), &grown), CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(), HasSubstr("2 ranks were asked for"));
    EXPECT_EQ(ccom_grow(comm, 3, nullptr, &grown), CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(), HasSubstr("joined without an address"));
    EXPECT_EQ(ccom_grow(comm, 3 + rank, root.c_str(), &grown), CCOM_MISMATCH);
    EXPECT_THAT(ccom_last_error(), HasSubstr("3 ranks at " + root));
    EXPECT_THAT(ccom_last_error(), HasSubstr("4 ranks at " + root));
    EXPECT_EQ(ccom_grow(comm, 3, root.c_str(), &grown), CCOM_TIMEOUT);
    EXPECT_THAT(ccom_last_error(), HasSubstr("2")) << "who is missing";
    EXPECT_EQ(grown, nullptr);
    EXPECT_EQ(reduce(comm), CCOM_SUCCESS) << ccom_last_error();
  });
}

// Nobody comes: what ends the growth is the old communicator, long before the timeout.
TEST_P(Elastic, ADeadMemberOrARevocationEndsAGrowthThatWaits) {
  const std::string root = free_address();
  for (const bool dies : {true, false}) {
    Job job(
        3, 60000,
        [&](ccom_comm_t* comm, uint32_t rank, int report) {
          Job::tell(report, rank, CCOM_SUCCESS);
          std::thread revokes;
          if (rank == 1 && !dies) {
            revokes = std::thread([&] {
              poll(nullptr, 0, 300);
              ccom_revoke(comm);
            });
          }
          ccom_comm_t* grown = nullptr;
          const ccom_status_t status = ccom_grow(comm, 4, root.c_str(), &grown);
          Job::tell(report, rank, status);
          if (revokes.joinable()) revokes.join();
          poll(nullptr, 0, 60000);
        },
        GetParam());
    Report said;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(job.hear(said, milliseconds(20000)));
      ASSERT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
    }
    poll(nullptr, 0, 300);
    if (dies) kill(job.child(1), SIGKILL);
    for (int i = 0; i < (dies ? 2 : 3); ++i) {
      ASSERT_TRUE(job.hear(said, milliseconds(20000))) << "a growth goes on";
      EXPECT_EQ(said.status, dies ? CCOM_RANK_DEAD : CCOM_REVOKED) << said.sentence;
      EXPECT_THAT(said.sentence, HasSubstr("rank 1 (host ")) << said.rank;
    }
  }
}

TEST(ElasticThreads, AreAllToldAtOnceThatRankZeroCannotHaveTheAddress) {
  Address address;
  address.bytes = {127, 0, 0, 1};
  const auto taken = open_listener(address, "test");
  ASSERT_TRUE(taken);
  ccom_options_t options = quick_options();
  options.timeout_ms = 60000;
  Ranks ranks(3, options);
  std::atomic<uint32_t> told{0};
  const auto begun = std::chrono::steady_clock::now();
  ranks.each([&](ccom_comm_t* comm, uint32_t) {
    ccom_comm_t* grown = nullptr;
    EXPECT_EQ(ccom_grow(comm, 4, text_of(address).c_str(), &grown), CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(), HasSubstr("rank 0 (host "));
    EXPECT_THAT(ccom_last_error(), HasSubstr("another job or program has it"));
    told += 1;
    EXPECT_EQ(reduce(comm), CCOM_SUCCESS) << ccom_last_error();
  });
  EXPECT_EQ(told, 3u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
  close(*taken);
}

// What a rank finds out when rank 0 already listens: the others would wait until their deadlines.
TEST_P(Elastic, AllAreToldAtOnceWhenARankCannotGoOnBehindTheBind) {
  const uint32_t flags = GetParam();
  const std::string port = free_address().substr(std::string("127.0.0.1").size());
  struct Trouble {
    uint32_t rank;
    const char* root;
    ccom_status_t status;
    const char* sentence;
  };
  const Trouble troubles[] = {{0, "0.0.0.0", CCOM_INVALID, "which CCOM_REQUIRE_SECRET=1 forbids"},
                              {0, "127.0.0.1", CCOM_RESOURCE, "file descriptors"},
                              {1, "127.0.0.1", CCOM_RESOURCE, "file descriptors"}};
  for (const Trouble& trouble : troubles) {
    SCOPED_TRACE(trouble.sentence);
    const bool secret = trouble.status == CCOM_INVALID;
    Job job(
        3, 60000,
        [&](ccom_comm_t* comm, uint32_t rank, int report) {
          const rlimit few{64, 64};
          if (rank == trouble.rank && !secret) setrlimit(RLIMIT_NOFILE, &few);
          for (int i = 0; i < 2; ++i) {
            ccom_comm_t* grown = nullptr;
            const ccom_status_t status = ccom_grow(comm, 4, (trouble.root + port).c_str(), &grown);
            Job::tell(report, rank, status);
          }
          Job::tell(report, rank, reduce(comm));
          poll(nullptr, 0, 60000);
        },
        flags,
        [&](uint32_t rank) {
          if (rank == 0 && secret) setenv("CCOM_REQUIRE_SECRET", "1", 1);
        });
    for (int i = 0; i < 9; ++i) {
      Report said;
      ASSERT_TRUE(job.hear(said, milliseconds(20000))) << "a growth goes on";
      if (said.status == CCOM_SUCCESS) continue;  // the old communicator
      EXPECT_EQ(said.status, trouble.status) << said.rank << ": " << said.sentence;
      EXPECT_THAT(said.sentence, HasSubstr(trouble.sentence));
      if (said.rank != trouble.rank) {
        EXPECT_THAT(said.sentence,
                    HasSubstr("ccom_grow: rank " + std::to_string(trouble.rank) + " (host "));
      }
    }
  }
}

// Each rank is the only one of its part, and each part gets a newcomer of its own.
TEST_P(Elastic, CommunicatorsOfASplitGrowAtAddressesOfTheirOwnAlone) {
  const uint32_t flags = GetParam();
  const std::string roots[] = {free_address(), free_address()};
  Job job(
      2, 20000,
      [&](ccom_comm_t* comm, uint32_t rank, int report) {
        ccom_comm_t *part = nullptr, *grown = nullptr;
        ccom_status_t status = ccom_split(comm, static_cast<int32_t>(rank), 0, &part);
        if (status == CCOM_SUCCESS) Job::tell(report, rank, ccom_grow(part, 2, nullptr, &grown));
        if (status == CCOM_SUCCESS) status = ccom_grow(part, 2, roots[rank].c_str(), &grown);
        if (status == CCOM_SUCCESS) status = reduce(grown);
        Job::tell(report, rank, status);
      },
      flags);
  test::Child newcomers[] = {newcomer(1, 2, roots[0], flags), newcomer(1, 2, roots[1], flags)};
  for (test::Child& child : newcomers) EXPECT_EQ(child.wait(), 0);
  int refused = 0, grown = 0;
  for (int i = 0; i < 4; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    if (said.status == CCOM_SUCCESS) {
      ++grown;
      continue;
    }
    ++refused;
    EXPECT_EQ(said.status, CCOM_INVALID) << said.sentence;
    EXPECT_THAT(said.sentence, HasSubstr(job.root() + " is the address of all communicators of a "
                                                      "ccom_split"));
  }
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(grown, 2);
}

TEST_P(Elastic, ARevocationEndsWhatIsUnderWayIsNoFailureAndAllGoOn) {
  const test::Folder folder;
  test::Setting path("CCOM_DUMP_PATH", folder.path());
  Job job(
      3, 20000,
      [](ccom_comm_t* comm, uint32_t rank, int report) {
        ccom_status_t status = CCOM_SUCCESS;
        if (rank == 1) {
          status = ccom_revoke(comm);
          for (int i = 0; i < 5000 && status == CCOM_SUCCESS; ++i) {
            status = ccom_status(comm);
            poll(nullptr, 0, 1);
          }
        }
        while (rank != 1 && status == CCOM_SUCCESS) status = reduce(comm);
        Job::tell(report, rank, status);
        status = reduce(comm);
        Job::tell(report, rank, status);
        ccom_comm_t* again = nullptr;
        status = ccom_shrink(comm, &again);
        if (status == CCOM_SUCCESS && ccom_size(again) != 3) status = CCOM_MISMATCH;
        if (status == CCOM_SUCCESS) status = reduce(again);
        Job::tell(report, rank, status);
        ccom_free(again);
        ccom_free(comm);
      },
      GetParam());
  uint32_t revoked = 0, well = 0;
  for (int i = 0; i < 9; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    revoked += said.status == CCOM_REVOKED;
    well += said.status == CCOM_SUCCESS;
    if (said.status == CCOM_REVOKED && said.rank != 1) {
      EXPECT_THAT(said.sentence, HasSubstr("rank 1 (host "));
      EXPECT_THAT(said.sentence, HasSubstr("revoked the communicator"));
    }
  }
  EXPECT_EQ(revoked, 6u);
  EXPECT_EQ(well, 3u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing has failed";
}

INSTANTIATE_TEST_SUITE_P(Over, Elastic, testing::Values(0u, kWithoutSharing));

// Nothing listens or connects before the secret has been asked for: the address is one of nobody.
TEST(Secrets, ThatAreRequiredMustBeGivenWhereOtherHostsReachTheRoot) {
  const test::Setting require("CCOM_REQUIRE_SECRET", "1");
  const test::Setting none("CCOM_SECRET", "");
  const auto joins = [](const std::string& root, const char* secret) {
    ccom_options_t options = options_of(root, 0, 200);
    options.secret = secret;
    ccom_comm_t* comm = nullptr;
    const ccom_status_t status = ccom_init(1, 2, &options, &comm);  // rank 0 never comes
    EXPECT_EQ(comm, nullptr);
    return status;
  };
  for (const char* root : {"192.0.2.1:4000", "[2001:db8::1]:4000", "0.0.0.0:4000"}) {
    EXPECT_EQ(joins(root, nullptr), CCOM_INVALID) << root;
    EXPECT_THAT(ccom_last_error(), HasSubstr("which CCOM_REQUIRE_SECRET=1 forbids")) << root;
  }
  for (const char* root : {"127.9.9.9:4000", "[::1]:4000", "[::ffff:127.0.0.1]:4000"}) {
    EXPECT_NE(joins(root, nullptr), CCOM_INVALID) << root << ": " << ccom_last_error();
  }
  EXPECT_NE(joins("192.0.2.1:4000", "known to the job"), CCOM_INVALID) << ccom_last_error();
  // Threads of one process need none.
  Ranks ranks(2);
  ranks.each([](ccom_comm_t* comm, uint32_t) { EXPECT_EQ(reduce(comm), CCOM_SUCCESS); });
}

uint64_t working(ccom_comm_t* comm) {
  ccom_memory_t memory = {};
  memory.size_of = sizeof(memory);
  return ccom_memory(comm, &memory) == CCOM_SUCCESS ? memory.working : ~uint64_t{0};
}

class Suspended : public testing::TestWithParam<uint32_t> {};

TEST_P(Suspended, RanksGiveTheirWorkingMemoryBackAndGoOnAfterwards) {
  constexpr uint64_t kCount = 1u << 21;
  Job job(
      2, 20000,
      [](ccom_comm_t* comm, uint32_t rank, int report) {
        // Buffers that no peer sees, and intermediate results.
        std::vector<uint32_t> input(kCount), output(kCount);
        const auto run = [&](uint32_t round) {
          for (uint64_t i = 0; i < kCount; ++i) {
            input[i] = static_cast<uint32_t>(i * 3 + rank + round);
          }
          ccom_collective_t call =
              call_of(CCOM_ALL_REDUCE, CCOM_UINT32, kCount, input.data(), output.data());
          call.algorithm = CCOM_RECURSIVE;
          const ccom_status_t status = ccom_run(comm, &call);
          for (uint64_t i = 0; status == CCOM_SUCCESS && i < kCount; ++i) {
            if (output[i] != static_cast<uint32_t>(i * 6 + 1 + 2 * round)) return CCOM_MISMATCH;
          }
          return status;
        };
        void* kept = nullptr;
        ccom_status_t status = ccom_mem_alloc(comm, 5000, &kept);
        if (status == CCOM_SUCCESS) memset(kept, 77, 5000);
        for (uint32_t round = 0; round < 3 && status == CCOM_SUCCESS; ++round) {
          status = run(round);
          if (status == CCOM_SUCCESS && working(comm) < (1u << 20)) status = CCOM_UNSUPPORTED;
          if (status == CCOM_SUCCESS) status = ccom_suspend(comm);
          if (status == CCOM_SUCCESS && working(comm) != 0) status = CCOM_RESOURCE;
          if (status == CCOM_SUCCESS && run(round) != CCOM_INVALID) status = CCOM_SYSTEM;
          if (status == CCOM_SUCCESS && ccom_suspend(comm) != CCOM_INVALID) status = CCOM_SYSTEM;
          if (status == CCOM_SUCCESS) status = ccom_resume(comm);
          if (status == CCOM_SUCCESS && ccom_resume(comm) != CCOM_INVALID) status = CCOM_SYSTEM;
        }
        const auto* const bytes = static_cast<const uint8_t*>(kept);
        if (status == CCOM_SUCCESS && std::count(bytes, bytes + 5000, 77) != 5000) {
          status = CCOM_MISMATCH;
        }
        if (status == CCOM_SUCCESS) status = run(9);
        Job::tell(report, rank, status);
        poll(nullptr, 0, 20000);
      },
      GetParam(), [](uint32_t) { setenv("CCOM_ORDER", "fast", 1); });
  for (int i = 0; i < 2; ++i) {
    Report said;
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    EXPECT_EQ(said.status, CCOM_SUCCESS) << said.rank << ": " << said.sentence;
  }
}

TEST_P(Suspended, RanksWithOperationsUnderWayAreNot) {
  ccom_options_t options = quick_options();
  options.flags = GetParam();
  Ranks ranks(2, options);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    std::vector<uint32_t> values(10);
    const auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, 10, values.data(), values.data());
    ccom_request_t* request = nullptr;
    if (rank == 0) {
      ASSERT_EQ(ccom_start(comm, &call, &request), CCOM_SUCCESS) << ccom_last_error();
    }
    EXPECT_EQ(ccom_suspend(comm), CCOM_MISMATCH);
    EXPECT_THAT(ccom_last_error(), HasSubstr("an operation is under way"));
    if (rank == 1) {
      ASSERT_EQ(ccom_start(comm, &call, &request), CCOM_SUCCESS) << ccom_last_error();
    }
    EXPECT_EQ(ccom_wait(request), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_suspend(comm), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_run(comm, &call), CCOM_INVALID);
    EXPECT_THAT(ccom_last_error(), HasSubstr("all ranks call ccom_resume first"));
    EXPECT_EQ(ccom_status(comm), CCOM_SUCCESS);
    EXPECT_EQ(ccom_resume(comm), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
  });
}

// Launched operations end whenever they end, also between two looks of a rank.
TEST_P(Suspended, RanksGetOneAnswerWhileLaunchedOperationsEnd) {
  ccom_options_t options = quick_options();
  options.flags = GetParam();
  if (GetParam() != 0) options.providers = "tcp";
  Ranks ranks(2, options);
  std::atomic<ccom_status_t> answers[2];
  for (int round = 0; round < 60; ++round) {
    ranks.each([&](ccom_comm_t* comm, uint32_t rank) {
      std::vector<float> values(2000 + round * 4000, 1.0f);
      std::atomic<int> told{0};
      ccom_completion_t completion = {};
      completion.size_of = sizeof(completion);
      completion.context = &told;
      completion.done = [](void* context, ccom_status_t, const char*) {
        ++*static_cast<std::atomic<int>*>(context);
      };
      const ccom_collective_t call = all_reduce(values);
      ASSERT_EQ(ccom_launch(comm, &call, &completion), CCOM_SUCCESS) << ccom_last_error();
      answers[rank] = ccom_suspend(comm);
      ASSERT_TRUE(test::eventually([&] { return told == 1; }));
    });
    ASSERT_EQ(answers[0], answers[1]) << "round " << round;
    if (answers[0] == CCOM_SUCCESS) {
      ranks.each([](ccom_comm_t* comm, uint32_t) {
        ASSERT_EQ(ccom_resume(comm), CCOM_SUCCESS) << ccom_last_error();
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Suspended, testing::Values(0u, kWithoutSharing));

TEST(Memory, OfARankIsCounted) {
  Ranks ranks(1);
  ccom_memory_t memory = {};
  EXPECT_EQ(ccom_memory(ranks[0], &memory), CCOM_INVALID);
  EXPECT_THAT(ccom_last_error(), HasSubstr("ccom_memory_t"));
  EXPECT_EQ(ccom_memory(ranks[0], nullptr), CCOM_INVALID);
  void* block = nullptr;
  ASSERT_EQ(ccom_mem_alloc(ranks[0], 10000, &block), CCOM_SUCCESS);
  memory.size_of = sizeof(memory);
  ASSERT_EQ(ccom_memory(ranks[0], &memory), CCOM_SUCCESS);
  EXPECT_EQ(memory.allocated, 3u * 4096);
  ASSERT_EQ(ccom_mem_free(ranks[0], block), CCOM_SUCCESS);
  ASSERT_EQ(ccom_memory(ranks[0], &memory), CCOM_SUCCESS);
  EXPECT_EQ(memory.allocated, 0u);
}

}  // namespace
}  // namespace neuron::ccom
