// SPDX-License-Identifier: Apache-2.0
#include <ccom/ccom.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/unit/ccom/api/ranks.h"

namespace {

using neuron::ccom::call_of;
using neuron::ccom::quick_options;
using neuron::ccom::Ranks;

TEST(Ccom, ReducesWithBuffersOfEveryKind) {
  Ranks ranks(3);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    void* shared = nullptr;
    ASSERT_EQ(ccom_mem_alloc(comm, 4000, &shared), CCOM_SUCCESS) << ccom_last_error();
    auto* in_arena = static_cast<int32_t*>(shared);
    for (int round = 0; round < 50; ++round) {
      std::vector<int32_t> input(1000), output(1000);
      for (int i = 0; i < 1000; ++i) {
        input[i] = in_arena[i] = static_cast<int32_t>(i + rank + round);
      }
      const auto call = call_of(CCOM_ALL_REDUCE, CCOM_INT32, 1000, input.data(), output.data());
      ASSERT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
      const auto in_place = call_of(CCOM_ALL_REDUCE, CCOM_INT32, 1000, in_arena, in_arena);
      ASSERT_EQ(ccom_run(comm, &in_place), CCOM_SUCCESS) << ccom_last_error();
      for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(output[i], 3 * (i + round) + 3);
        ASSERT_EQ(in_arena[i], 3 * (i + round) + 3);
      }
    }
    EXPECT_EQ(ccom_mem_free(comm, shared), CCOM_SUCCESS);
    EXPECT_EQ(ccom_mem_free(comm, shared), CCOM_INVALID);
    EXPECT_EQ(ccom_status(comm), CCOM_SUCCESS);
  });
}

// A large number and two small ones: each small one alone is half a step of the large one's format,
// which rounding to even drops. Only who adds all three in fp32 before rounding keeps them.
TEST(Ccom, AMeshAddsTheNumbersOfAllRanksIn32BitsAndRoundsOnce) {
  struct Case {
    ccom_type_t type;
    uint32_t large, small, sum, width;
  };
  const Case cases[] = {
      {CCOM_BF16, 0x4380, 0x3F80, 0x4381, 2},  // 256 + 1 + 1 = 258
      {CCOM_FP16, 0x6800, 0x3C00, 0x6801, 2},  // 2048 + 1 + 1 = 2050
      {CCOM_FP8_E3, 0x60, 0x10, 0x61, 1},      // 8 + 0.25 + 0.25 = 8.5
      {CCOM_FP8_E4, 0x58, 0x38, 0x59, 1},      // 16 + 1 + 1 = 18
      {CCOM_FP8_E5, 0x48, 0x3C, 0x49, 1},      // 8 + 1 + 1 = 10
  };
  constexpr uint64_t kCount = 333;
  Ranks ranks(3);
  for (const Case& each : cases) {
    for (const ccom_operation_t operation : {CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER}) {
      ranks.each([&](ccom_comm_t* comm, uint32_t rank) {
        const uint32_t value = rank == 0 ? each.large : each.small;
        const uint64_t inputs = operation == CCOM_ALL_REDUCE ? kCount : 3 * kCount;
        std::vector<uint8_t> input(inputs * each.width), output(kCount * each.width);
        for (uint64_t i = 0; i < inputs; ++i) {
          std::memcpy(input.data() + i * each.width, &value, each.width);
        }
        auto call = call_of(operation, each.type, kCount, input.data(), output.data());
        call.algorithm = operation == CCOM_ALL_REDUCE ? CCOM_ONE_STEP_MESH : CCOM_MESH;
        ASSERT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
        for (uint64_t i = 0; i < kCount; ++i) {
          uint32_t found = 0;
          std::memcpy(&found, output.data() + i * each.width, each.width);
          ASSERT_EQ(found, each.sum) << "type " << each.type << ", element " << i;
        }
      });
    }
  }
}

TEST(Ccom, ReduceScatterWritesItsOwnBlockAndNothingElseInPlace) {
  constexpr uint32_t kRanks = 4;
  constexpr int64_t kCount = 1001;
  for (const uint32_t flags : {0u, CCOM_FLAG_FAST_ORDER}) {
    ccom_options_t options = quick_options();
    options.flags = flags;
    Ranks ranks(kRanks, options);
    ranks.each([&](ccom_comm_t* comm, uint32_t rank) {
      uint32_t done = 0;
      for (uint32_t algorithm = 0; algorithm < CCOM_ALGORITHM_COUNT; ++algorithm) {
        // As much behind the input again: a wrong offset would land there.
        std::vector<uint32_t> values(2 * kRanks * kCount, 7777);
        std::fill_n(values.begin(), kRanks * kCount, rank + 1);
        uint32_t* const own = values.data() + rank * kCount;
        auto call = call_of(CCOM_REDUCE_SCATTER, CCOM_UINT32, kCount, values.data(), own);
        call.algorithm = static_cast<ccom_algorithm_t>(algorithm);
        const ccom_status_t status = ccom_run(comm, &call);
        if (status == CCOM_UNSUPPORTED) {
          continue;  // another operation's algorithm
        }
        ++done;
        ASSERT_EQ(status, CCOM_SUCCESS) << ccom_last_error();
        EXPECT_EQ(std::count(own, own + kCount, 10u), kCount) << "algorithm " << algorithm;
        EXPECT_EQ(std::count(values.begin() + kRanks * kCount, values.end(), 7777u),
                  kRanks * kCount)
            << "algorithm " << algorithm << " wrote behind the input of rank " << rank;
      }
      EXPECT_GT(done, 4u);
    });
  }
}

TEST(Ccom, ARankWithoutElementsTakesPartInPlace) {
  constexpr uint32_t kRanks = 3;
  for (const uint32_t flags : {0u, CCOM_FLAG_FAST_ORDER, CCOM_FLAG_NO_SHARED_MEMORY}) {
    ccom_options_t options = quick_options();
    options.flags = flags;
    Ranks ranks(kRanks, options);
    ranks.each([](ccom_comm_t* comm, uint32_t rank) {
      const uint64_t counts[kRanks] = {5, 0, 900}, places[kRanks] = {3, 10, 20};
      for (const ccom_operation_t operation : {CCOM_ALL_GATHER_V, CCOM_REDUCE_SCATTER_V}) {
        const bool gathers = operation == CCOM_ALL_GATHER_V;
        std::vector<uint32_t> values(1000, gathers ? 99 : rank + 1);
        uint32_t* const own = values.data() + places[rank];
        std::fill_n(own, counts[rank], rank + 1);
        auto call = call_of(operation, CCOM_UINT32, 0, gathers ? own : values.data(),
                            gathers ? values.data() : own);
        call.counts = counts;
        call.displacements = places;
        ASSERT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
        if (gathers) {
          EXPECT_EQ(values[7], 1u);
          EXPECT_EQ(values[10], 99u);
          EXPECT_EQ(values[919], 3u);
        } else if (counts[rank] != 0) {
          EXPECT_EQ(own[0], 6u);
          EXPECT_EQ(own[counts[rank] - 1], 6u);
        }
      }
    });
  }
}

TEST(Ccom, ExchangesDifferentCountsBetweenAllRanks) {
  constexpr uint32_t kSize = 4;
  Ranks ranks(kSize);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    // Rank a sends a + 2 * b elements of value 10 * a + b to rank b.
    uint64_t counts[kSize], displacements[kSize], receive_counts[kSize], receive_places[kSize];
    std::vector<uint16_t> input, output(100, 999);
    uint64_t at = 1;
    for (uint32_t i = 0; i < kSize; ++i) {
      counts[i] = rank + 2 * i;
      displacements[i] = input.size();
      input.insert(input.end(), counts[i], static_cast<uint16_t>(10 * rank + i));
      receive_counts[i] = i + 2 * rank;
      receive_places[i] = at;
      at += receive_counts[i] + 1;
    }
    auto call = call_of(CCOM_ALL_TO_ALL_V, CCOM_UINT16, 0, input.data(), output.data());
    call.counts = counts;
    call.displacements = displacements;
    call.receive_counts = receive_counts;
    call.receive_displacements = receive_places;
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
    }
    for (uint32_t i = 0; i < kSize; ++i) {
      for (uint64_t k = 0; k < receive_counts[i]; ++k) {
        EXPECT_EQ(output[receive_places[i] + k], 10 * i + rank);
      }
      EXPECT_EQ(output[receive_places[i] - 1], 999);
    }
  });
}

TEST(Ccom, StartedOperationsEndInOrderOfTheirStreams) {
  Ranks ranks(2);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    std::vector<float> values[6];
    ccom_request_t* requests[6] = {};
    for (uint32_t i = 0; i < 6; ++i) {
      values[i].assign(500, static_cast<float>(rank + i));
      auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 500, values[i].data(), values[i].data());
      call.stream = i % 2;
      ASSERT_EQ(ccom_start(comm, &call, &requests[i]), CCOM_SUCCESS) << ccom_last_error();
    }
    for (int i = 5; i >= 0; --i) {
      ASSERT_EQ(ccom_wait(requests[i]), CCOM_SUCCESS) << ccom_last_error();
      EXPECT_EQ(values[i][499], static_cast<float>(2 * i + 1));
    }
  });
}

TEST(Ccom, EveryStreamMovesOnWhileARankWaitsForAnother) {
  for (const uint32_t flags : {0u, CCOM_FLAG_NO_SHARED_MEMORY}) {
    ccom_options_t options = quick_options();
    options.flags = flags;
    Ranks ranks(2, options);
    ranks.each([](ccom_comm_t* comm, uint32_t rank) {
      uint32_t values[3] = {1, 1, 1}, sums[3] = {};
      ccom_request_t* requests[2] = {};
      for (uint32_t i = 0; i < 2; ++i) {
        auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, 1, &values[i], &sums[i]);
        call.stream = 1;
        ASSERT_EQ(ccom_start(comm, &call, &requests[i]), CCOM_SUCCESS) << ccom_last_error();
      }
      // One rank runs something on another stream first, the other one afterwards.
      const auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, 1, &values[2], &sums[2]);
      if (rank == 0) {
        EXPECT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
      }
      EXPECT_EQ(ccom_wait(requests[0]), CCOM_SUCCESS) << ccom_last_error();
      EXPECT_EQ(ccom_wait(requests[1]), CCOM_SUCCESS) << ccom_last_error();
      if (rank == 1) {
        EXPECT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
      }
      for (const uint32_t sum : sums) {
        EXPECT_EQ(sum, 2u);
      }
    });
  }
}

TEST(Ccom, WhatMakesProgressMayTakeLongerThanItsTimeout) {
  constexpr uint32_t kRanks = 6;
  Ranks ranks(kRanks);
  std::vector<uint32_t> values[kRanks];
  const auto call_for = [&](uint32_t rank) {
    values[rank].assign(60000, rank);
    auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, values[rank].size(), values[rank].data(),
                        values[rank].data());
    call.algorithm = CCOM_RING;
    call.timeout_ms = 250;
    return call;
  };
  ccom_request_t* requests[kRanks] = {};
  for (uint32_t rank = 1; rank < kRanks; ++rank) {
    const auto call = call_for(rank);
    ASSERT_EQ(ccom_start(ranks[rank], &call, &requests[rank]), CCOM_SUCCESS) << ccom_last_error();
  }
  const auto call = call_for(0);
  const auto begin = std::chrono::steady_clock::now();
  std::thread runner(
      [&] { EXPECT_EQ(ccom_run(ranks[0], &call), CCOM_SUCCESS) << ccom_last_error(); });
  // The others take a step of the ring each time.
  uint32_t left = kRanks - 1;
  while (left != 0) {
    poll(nullptr, 0, 50);
    for (uint32_t rank = kRanks - 1; rank != 0; --rank) {
      if (requests[rank] == nullptr) {
        continue;
      }
      const ccom_status_t status = ccom_test(requests[rank]);
      if (status != CCOM_IN_PROGRESS) {
        EXPECT_EQ(status, CCOM_SUCCESS) << ccom_last_error();
        requests[rank] = nullptr;
        --left;
      }
    }
  }
  runner.join();
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(250));
  EXPECT_EQ(values[0][59999], 15u);
}

TEST(Ccom, SplitsByColorAndOrdersByKey) {
  Ranks ranks(5);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    ccom_comm_t* part = nullptr;
    const int32_t color = rank == 4 ? -1 : static_cast<int32_t>(rank % 2);
    ASSERT_EQ(ccom_split(comm, color, -static_cast<int32_t>(rank), &part), CCOM_SUCCESS)
        << ccom_last_error();
    ASSERT_EQ(part == nullptr, rank == 4);
    if (part != nullptr) {
      EXPECT_EQ(ccom_size(part), 2u);
      EXPECT_EQ(ccom_rank(part), rank < 2 ? 1u : 0u);
      uint64_t mine = rank, both[2] = {};
      const auto call = call_of(CCOM_ALL_GATHER, CCOM_UINT64, 1, &mine, both);
      EXPECT_EQ(ccom_run(part, &call), CCOM_SUCCESS) << ccom_last_error();
      EXPECT_EQ(both[0], rank % 2 + 2);
      EXPECT_EQ(both[1], rank % 2);
      ccom_free(part);
    }
  });
}

TEST(Ccom, NamesItsStatusesItsTypesAndItself) {
  EXPECT_STREQ(ccom_status_name(CCOM_RANK_DEAD), "CCOM_RANK_DEAD");
  EXPECT_EQ(ccom_type_size(CCOM_BF16), 2u);
  ASSERT_NE(ccom_version(), nullptr);
  EXPECT_NE(ccom_version()[0], '\0');
}

TEST(Ccom, AnAbortEndsWhatOthersWaitForAndTheRestShrinks) {
  Ranks ranks(3);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    if (rank == 1) {
      std::vector<int8_t> buffer(10);
      EXPECT_EQ(ccom_abort(comm), CCOM_SUCCESS);
      EXPECT_EQ(ccom_status(comm), CCOM_ABORTED) << "by itself, before anything else is called";
    } else {
      const auto call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
      EXPECT_EQ(ccom_run(comm, &call), CCOM_ABORTED);
      EXPECT_NE(std::string(ccom_last_error()).find("rank 1"), std::string::npos)
          << ccom_last_error();
    }
    ccom_comm_t* rest = nullptr;
    ASSERT_EQ(ccom_shrink(comm, &rest), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(ccom_status(comm), CCOM_ABORTED);
    EXPECT_EQ(ccom_size(rest), 3u);
    const auto call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
    EXPECT_EQ(ccom_run(rest, &call), CCOM_SUCCESS) << ccom_last_error();
    ccom_free(rest);
  });
}

TEST(Ccom, ReportsDifferentCallsWithBothSides) {
  Ranks ranks(2);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    std::vector<float> input(64), output(64);
    const auto call =
        call_of(CCOM_ALL_REDUCE, CCOM_FP32, rank == 0 ? 64 : 32, input.data(), output.data());
    EXPECT_EQ(ccom_run(comm, &call), CCOM_MISMATCH) << ccom_last_error();
    const std::string sentence = ccom_last_error();
    EXPECT_NE(sentence.find("64"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("32"), std::string::npos) << sentence;
    EXPECT_EQ(ccom_status(comm), CCOM_MISMATCH);
  });
}

TEST(Ccom, NamesTheRankThatNeverBegan) {
  Ranks ranks(3);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    uint32_t value = rank, sum = 0;
    auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, 1, &value, &sum);
    ASSERT_EQ(ccom_run(comm, &call), CCOM_SUCCESS);
    if (rank == 2) {
      return;
    }
    call.timeout_ms = 100;
    const ccom_status_t status = ccom_run(comm, &call);
    EXPECT_EQ(status, CCOM_TIMEOUT) << ccom_last_error();
    const std::string sentence = ccom_last_error();
    EXPECT_NE(sentence.find("rank 2"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("all_reduce"), std::string::npos) << sentence;
  });
}

TEST(Ccom, SaysWhichArgumentIsWrong) {
  Ranks ranks(2);
  ccom_comm_t* comm = ranks[0];
  std::vector<uint8_t> buffer(64);
  const auto expect = [&](const ccom_collective_t& call, const char* word) {
    EXPECT_EQ(ccom_run(comm, &call), CCOM_INVALID);
    EXPECT_NE(std::string(ccom_last_error()).find(word), std::string::npos) << ccom_last_error();
  };
  auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT8, 8, buffer.data(), buffer.data() + 4);
  expect(call, "overlap");
  call = call_of(CCOM_ALL_REDUCE, CCOM_UINT8, 8, nullptr, buffer.data());
  expect(call, "input is null");
  call = call_of(CCOM_ALL_REDUCE, CCOM_UINT8, 8, buffer.data(), nullptr);
  expect(call, "output is null");
  call.size_of = 3;
  expect(call, "size_of");
  call = call_of(CCOM_BROADCAST, CCOM_UINT8, 8, buffer.data(), buffer.data());
  call.root = 2;
  expect(call, "root");
  call = call_of(CCOM_ALL_REDUCE, static_cast<ccom_type_t>(77), 8, buffer.data(), buffer.data());
  expect(call, "type 77");
  call = call_of(static_cast<ccom_operation_t>(-1), CCOM_UINT8, 8, buffer.data(), buffer.data());
  expect(call, "operation");
  call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
  call.stream = CCOM_MAX_STREAMS;
  expect(call, "stream 4");
  call = call_of(CCOM_PERMUTE, CCOM_UINT8, 1, buffer.data(), buffer.data());
  call.pair_count = 1;
  expect(call, "pairs is null");
  call = call_of(CCOM_ALL_GATHER_V, CCOM_UINT8, 1, buffer.data(), buffer.data());
  expect(call, "counts is null");
  call = call_of(CCOM_ALL_TO_ALL, CCOM_UINT64, UINT64_MAX / 4, buffer.data(), buffer.data());
  expect(call, "elements");
  EXPECT_EQ(ccom_run(nullptr, &call), CCOM_INVALID);
  EXPECT_EQ(ccom_run(comm, nullptr), CCOM_INVALID);
  EXPECT_EQ(ccom_status(comm), CCOM_SUCCESS);  // a wrong argument ends nothing
}

TEST(Ccom, RefusesAFreedCommunicator) {
  const ccom_options_t options = quick_options();
  ccom_comm_t* comm = nullptr;
  ASSERT_EQ(ccom_init_all(1, &options, &comm), CCOM_SUCCESS) << ccom_last_error();
  ASSERT_EQ(ccom_free(comm), CCOM_SUCCESS);
  EXPECT_EQ(ccom_free(comm), CCOM_INVALID);
  const auto call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
  EXPECT_EQ(ccom_run(comm, &call), CCOM_INVALID);
  EXPECT_NE(std::string(ccom_last_error()).find("freed"), std::string::npos);
}

TEST(Ccom, BelongsToTheParentAfterAFork) {
  Ranks ranks(2);
  auto child = neuron::test::Child::forked([&] {
    const auto call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
    const bool refused =
        ccom_run(ranks[0], &call) == CCOM_INVALID && strstr(ccom_last_error(), "forked") != nullptr;
    return refused && ccom_free(ranks[0]) == CCOM_SUCCESS ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Ccom, AForkWhileAnOperationIsUnderWayLeavesItToTheParent) {
  for (const uint32_t flags : {0u, CCOM_FLAG_NO_SHARED_MEMORY}) {
    ccom_options_t options = quick_options();
    options.flags = flags;
    Ranks ranks(2, options);
    std::vector<uint32_t> values[2];
    ccom_request_t* requests[2] = {};
    const auto start = [&](uint32_t rank) {
      values[rank].assign(100000, 1);
      const auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, values[rank].size(),
                                values[rank].data(), values[rank].data());
      ASSERT_EQ(ccom_start(ranks[rank], &call, &requests[rank]), CCOM_SUCCESS) << ccom_last_error();
    };
    start(0);
    auto child = neuron::test::Child::forked([&] {
      alarm(10);
      const bool refused =
          ccom_test(requests[0]) == CCOM_INVALID && strstr(ccom_last_error(), "forked") != nullptr;
      return refused && ccom_free(ranks[0]) == CCOM_SUCCESS ? 0 : 1;
    });
    EXPECT_EQ(child.wait(), 0);
    start(1);
    ranks.each([&](ccom_comm_t*, uint32_t rank) {
      EXPECT_EQ(ccom_wait(requests[rank]), CCOM_SUCCESS) << ccom_last_error();
      EXPECT_EQ(values[rank][99999], 2u);
    });
  }
}

TEST(Ccom, DumpsOfTwoCommunicatorsDoNotOverwriteEachOther) {
  const neuron::test::Folder temporary;
  const char* const folder = temporary.path().c_str();
  size_t files = 0;
  {
    Ranks first(1), second(1);
    for (int time = 0; time < 2; ++time) {  // the second time over the first
      EXPECT_EQ(ccom_dump(first[0], folder), CCOM_SUCCESS) << ccom_last_error();
      EXPECT_EQ(ccom_dump(second[0], folder), CCOM_SUCCESS) << ccom_last_error();
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files += entry.path().extension() == ".json";
  }
  EXPECT_EQ(files, 2u);
}

TEST(Ccom, TellsNewsThatEndNothing) {
  Ranks ranks(3);
  ccom_notice_t notice = {};
  EXPECT_EQ(ccom_told(ranks[0], 0, &notice), CCOM_INVALID);
  EXPECT_NE(strstr(ccom_last_error(), "size_of"), nullptr) << ccom_last_error();
  notice.size_of = sizeof(notice);
  EXPECT_EQ(ccom_told(ranks[0], 0, nullptr), CCOM_INVALID);
  EXPECT_EQ(ccom_tell(ranks[0], 0, nullptr), CCOM_INVALID);
  EXPECT_EQ(ccom_tell(nullptr, 0, "news"), CCOM_INVALID);
  EXPECT_EQ(ccom_told(ranks[0], 0, &notice), CCOM_IN_PROGRESS);
  EXPECT_EQ(ccom_tell(ranks[1], 4, "a NaN"), CCOM_SUCCESS) << ccom_last_error();
  EXPECT_EQ(ccom_tell(ranks[2], 4, "rank 1 found a NaN"), CCOM_SUCCESS);
  EXPECT_EQ(ccom_tell(ranks[2], 9, std::string(5000, 'x').c_str()), CCOM_SUCCESS);
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    ccom_notice_t told = {};
    told.size_of = sizeof(told);
    EXPECT_EQ(ccom_told(comm, 2, &told), CCOM_SUCCESS) << rank;
    EXPECT_EQ(told.number, 4u);
    EXPECT_EQ(told.rank, 1u);
    EXPECT_STREQ(told.sentence, "a NaN");
    EXPECT_EQ(ccom_told(comm, 5, &told), CCOM_SUCCESS) << rank;
    EXPECT_EQ(told.number, 9u);
    EXPECT_EQ(std::string(told.sentence), std::string(CCOM_NOTICE_BYTES, 'x'));
    EXPECT_EQ(ccom_told(comm, 10, &told), CCOM_IN_PROGRESS);
    const auto call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
    EXPECT_EQ(ccom_run(comm, &call), CCOM_SUCCESS) << ccom_last_error();
  });
}

TEST(Ccom, ExplainsItsChoice) {
  Ranks ranks(2);
  const auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 1 << 20, nullptr, nullptr);
  char text[16];
  const size_t length = ccom_explain(ranks[0], &call, text, sizeof(text));
  EXPECT_GT(length, sizeof(text));
  EXPECT_EQ(strlen(text), sizeof(text) - 1);
  std::string all(length + 1, 0);
  ccom_explain(ranks[0], &call, all.data(), all.size());
  EXPECT_NE(all.find("ring"), std::string::npos);
  EXPECT_EQ(all.find("between hosts"), std::string::npos);
}

TEST(Ccom, NamesTheProviderBetweenHostsWithTheChoice) {
  ccom_options_t options = quick_options();
  options.flags |= CCOM_FLAG_NO_SHARED_MEMORY;
  Ranks ranks(2, options);
  const auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 1, nullptr, nullptr);
  std::string text(4096, 0);
  text.resize(ccom_explain(ranks[0], &call, text.data(), text.size()));
  EXPECT_NE(text.find("between hosts: stream on 127.0.0.1"), std::string::npos) << text;
}

TEST(Ccom, SurvivesFreeWhileAnOperationIsUnderWay) {
  const ccom_options_t options = quick_options();
  ccom_comm_t* comms[2];
  ASSERT_EQ(ccom_init_all(2, &options, comms), CCOM_SUCCESS);
  const auto call = call_of(CCOM_BARRIER, CCOM_UINT8, 0, nullptr, nullptr);
  ccom_request_t* request = nullptr;
  ASSERT_EQ(ccom_start(comms[0], &call, &request), CCOM_SUCCESS) << ccom_last_error();
  EXPECT_EQ(ccom_test(request), CCOM_IN_PROGRESS);
  ccom_free(comms[0]);
  EXPECT_EQ(ccom_test(request), CCOM_ABORTED);
  ccom_free(comms[1]);
}

}  // namespace
