// SPDX-License-Identifier: Apache-2.0
// Operations whose completion is given at their launch: the library carries them to their ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/eventually.h"
#include "tests/unit/ccom/api/ranks.h"

namespace neuron::ccom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a rank was told, in order.
struct Told {
  struct Mark {
    Told* all;
    int which;
  };
  std::mutex mutex;
  std::vector<int> which;
  std::vector<ccom_status_t> statuses;
  std::vector<std::string> sentences;

  size_t count() {
    const std::lock_guard lock(mutex);
    return which.size();
  }
};

ccom_completion_t completion_of(Told::Mark& mark) {
  ccom_completion_t completion = {};
  completion.size_of = sizeof(completion);
  completion.context = &mark;
  completion.done = [](void* context, ccom_status_t status, const char* sentence) {
    const auto* const mark = static_cast<Told::Mark*>(context);
    const std::lock_guard lock(mark->all->mutex);
    mark->all->which.push_back(mark->which);
    mark->all->statuses.push_back(status);
    mark->all->sentences.push_back(sentence);
  };
  return completion;
}

class Launched : public testing::TestWithParam<uint32_t> {
 protected:
  static ccom_options_t options() {
    ccom_options_t options = quick_options();
    options.flags = GetParam();
    return options;
  }
};

TEST_P(Launched, OperationsEndWhileNoRankMakesACall) {
  Ranks ranks(3, options());
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    Told told;
    Told::Mark mark{&told, 1};
    const ccom_completion_t completion = completion_of(mark);
    std::vector<uint64_t> values(300000, rank + 1);
    const auto call =
        call_of(CCOM_ALL_REDUCE, CCOM_UINT64, values.size(), values.data(), values.data());
    ASSERT_EQ(ccom_launch(comm, &call, &completion), CCOM_SUCCESS) << ccom_last_error();
    ASSERT_TRUE(test::eventually([&] { return told.count() == 1; }));
    EXPECT_EQ(told.statuses[0], CCOM_SUCCESS) << told.sentences[0];
    EXPECT_EQ(told.sentences[0], "");
    EXPECT_EQ(std::count(values.begin(), values.end(), 6u), 300000);
  });
}

TEST_P(Launched, OperationsKeepTheOrderOfTheirStreamAndMixWithOthers) {
  constexpr int kRounds = 60;
  Ranks ranks(3, options());
  ranks.each([](ccom_comm_t* comm, uint32_t rank) {
    Told told;
    std::vector<Told::Mark> marks(kRounds, Told::Mark{&told, 0});
    std::vector<std::vector<uint32_t>> values(3 * kRounds, std::vector<uint32_t>(5000, rank));
    std::vector<ccom_request_t*> requests;
    for (int round = 0; round < kRounds; ++round) {
      marks[round].which = round;
      const ccom_completion_t completion = completion_of(marks[round]);
      const auto on = [&](std::vector<uint32_t>& data, uint32_t stream) {
        auto call = call_of(CCOM_ALL_REDUCE, CCOM_UINT32, data.size(), data.data(), data.data());
        call.stream = stream;
        return call;
      };
      const auto launched = on(values[3 * round], 0);
      const auto started = on(values[3 * round + 1], 1);
      const auto run = on(values[3 * round + 2], round % 3);
      ASSERT_EQ(ccom_launch(comm, &launched, &completion), CCOM_SUCCESS) << ccom_last_error();
      ccom_request_t* request = nullptr;
      ASSERT_EQ(ccom_start(comm, &started, &request), CCOM_SUCCESS) << ccom_last_error();
      requests.push_back(request);
      ASSERT_EQ(ccom_run(comm, &run), CCOM_SUCCESS) << ccom_last_error();
    }
    for (ccom_request_t* request : requests) {
      ASSERT_EQ(ccom_wait(request), CCOM_SUCCESS) << ccom_last_error();
    }
    ASSERT_TRUE(test::eventually([&] { return told.count() == kRounds; }));
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(told.which[round], round);
      EXPECT_EQ(told.statuses[round], CCOM_SUCCESS) << told.sentences[round];
    }
    for (const auto& data : values) ASSERT_EQ(std::count(data.begin(), data.end(), 3u), 5000);
  });
}

TEST_P(Launched, OperationsThatFailSayWhy) {
  Ranks ranks(2, options());
  std::atomic<bool> launched{false};
  ranks.each([&](ccom_comm_t* comm, uint32_t rank) {
    Told told;
    std::vector<Told::Mark> marks(2, Told::Mark{&told, 0});
    std::vector<float> values(50);
    const auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 50, values.data(), values.data());
    if (rank == 0) {
      for (int i = 0; i < 2; ++i) {
        marks[i].which = i;
        const ccom_completion_t completion = completion_of(marks[i]);
        EXPECT_EQ(ccom_launch(comm, &call, &completion), CCOM_SUCCESS) << ccom_last_error();
      }
      launched = true;
    } else {
      EXPECT_TRUE(test::eventually([&] { return launched.load(); }));
      EXPECT_EQ(ccom_abort(comm), CCOM_SUCCESS);
    }
    if (rank == 0) {
      ASSERT_TRUE(test::eventually([&] { return told.count() == 2; }));
      EXPECT_THAT(told.which, ElementsAre(0, 1));
      EXPECT_THAT(told.statuses, ElementsAre(CCOM_ABORTED, CCOM_ABORTED));
      EXPECT_THAT(told.sentences[0], HasSubstr("rank 1"));
      EXPECT_THAT(told.sentences[0], HasSubstr("all_reduce"));
    }
  });
}

TEST_P(Launched, OperationsAreAbortedByTheEndOfTheirCommunicator) {
  Told told;
  Told::Mark mark{&told, 7};
  std::vector<float> values(50);
  {
    Ranks ranks(2, options());
    const auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 50, values.data(), values.data());
    const ccom_completion_t completion = completion_of(mark);
    ASSERT_EQ(ccom_launch(ranks[0], &call, &completion), CCOM_SUCCESS) << ccom_last_error();
    EXPECT_EQ(told.count(), 0u);
  }
  EXPECT_THAT(told.which, ElementsAre(7));
  EXPECT_THAT(told.statuses, ElementsAre(CCOM_ABORTED));
  EXPECT_THAT(told.sentences[0], HasSubstr("its communicator was freed before it was done"));
}

TEST_P(Launched, WrongCallsAreRefusedAtOnceAndNobodyIsToldOfThem) {
  Ranks ranks(1, options());
  Told told;
  Told::Mark mark{&told, 0};
  ccom_completion_t completion = completion_of(mark);
  std::vector<float> values(50);
  auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 50, values.data(), values.data());
  EXPECT_EQ(ccom_launch(ranks[0], &call, nullptr), CCOM_INVALID);
  EXPECT_EQ(ccom_launch(ranks[0], nullptr, &completion), CCOM_INVALID);
  completion.size_of = 1;
  EXPECT_EQ(ccom_launch(ranks[0], &call, &completion), CCOM_INVALID);
  EXPECT_THAT(ccom_last_error(), HasSubstr("ccom_completion_t"));
  completion = completion_of(mark);
  completion.done = nullptr;
  EXPECT_EQ(ccom_launch(ranks[0], &call, &completion), CCOM_INVALID);
  completion = completion_of(mark);
  call.stream = CCOM_MAX_STREAMS;
  EXPECT_EQ(ccom_launch(ranks[0], &call, &completion), CCOM_INVALID);
  EXPECT_EQ(told.count(), 0u);
  call.stream = 0;
  EXPECT_EQ(ccom_launch(ranks[0], &call, &completion), CCOM_SUCCESS) << ccom_last_error();
  ASSERT_TRUE(test::eventually([&] { return told.count() == 1; }));
  EXPECT_EQ(told.statuses[0], CCOM_SUCCESS);
}

// The function of a completion unmaps the buffer, as its owner may. The other rank is inside its
// copy of it when the communicator is freed: what reads an unmapped buffer dies.
int free_inside_a_copy() {
  constexpr size_t kBytes = size_t{192} << 20;
  struct Buffer {
    std::byte* data = nullptr;
    std::atomic<int> told{0};
    ccom_status_t status = CCOM_SUCCESS;
  } buffers[2];
  for (Buffer& buffer : buffers) {
    void* const data =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return 1;
    buffer.data = static_cast<std::byte*>(data);
    std::fill_n(buffer.data, kBytes, std::byte{static_cast<uint8_t>(1 + (&buffer - buffers))});
  }
  Ranks ranks(2);
  const auto launch = [&](uint32_t rank) {
    Buffer& buffer = buffers[rank];
    ccom_completion_t completion = {};
    completion.size_of = sizeof(completion);
    completion.context = &buffer;
    completion.done = [](void* context, ccom_status_t status, const char*) {
      auto& buffer = *static_cast<Buffer*>(context);
      buffer.status = status;
      if (status != CCOM_SUCCESS) munmap(buffer.data, kBytes);
      ++buffer.told;
    };
    const auto call =
        call_of(CCOM_BROADCAST, CCOM_FP32, kBytes / sizeof(float), buffer.data, buffer.data);
    return ccom_launch(ranks[rank], &call, &completion) == CCOM_SUCCESS;
  };
  if (!launch(0)) return 2;
  std::thread other([&] { launch(1); });
  // Its copy has begun when a byte of its buffer changes, wherever it begins.
  const bool begun = test::eventually(
      [&] {
        if (buffers[1].told != 0) return true;
        for (size_t at = 0; at < kBytes; at += kBytes / 96) {
          if (reinterpret_cast<volatile std::byte&>(buffers[1].data[at]) == std::byte{1}) {
            return true;
          }
        }
        return false;
      },
      test::kPatience, std::chrono::nanoseconds(0));
  if (!begun) return 3;
  ranks.free(0);
  if (buffers[0].told != 1) return 4;
  other.join();
  if (!test::eventually([&] { return buffers[1].told == 1; })) return 5;
  return 0;
}

TEST(LaunchedThreads, ABufferBelongsToWhoIsToldOfItsAbortEvenIfAPeerWasInsideItsCopy) {
  for (int round = 0; round < 5; ++round) {
    test::Child child = test::Child::forked(free_inside_a_copy);
    ASSERT_EQ(child.wait(), 0) << "round " << round;
  }
}

// Blocked signals of this process's threads, by their names.
std::map<std::string, std::vector<uint64_t>> blocked_signals() {
  std::map<std::string, std::vector<uint64_t>> blocked;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string line, name;
    while (std::getline(status, line)) {
      if (line.starts_with("Name:\t")) name = line.substr(6);
      if (line.starts_with("SigBlk:\t")) {
        blocked[name].push_back(std::stoull(line.substr(8), nullptr, 16));
      }
    }
  }
  return blocked;
}

TEST(LaunchedThreads, OfTheLibraryTakeNoSignalOfTheProgram) {
  ccom_options_t options = quick_options();
  options.flags = CCOM_FLAG_NO_SHARED_MEMORY;
  options.providers = "tcp";
  Ranks ranks(2, options);
  ranks.each([](ccom_comm_t* comm, uint32_t) {
    Told told;
    Told::Mark mark{&told, 0};
    const ccom_completion_t completion = completion_of(mark);
    float value = 1;
    const auto call = call_of(CCOM_ALL_REDUCE, CCOM_FP32, 1, &value, &value);
    ASSERT_EQ(ccom_launch(comm, &call, &completion), CCOM_SUCCESS) << ccom_last_error();
    ASSERT_TRUE(test::eventually([&] { return told.count() == 1; }));
    uint32_t window = 0;
    ASSERT_EQ(ccom_window_open(comm, nullptr, 0, &window), CCOM_SUCCESS) << ccom_last_error();
  });
  auto blocked = blocked_signals();
  for (const char* name : {"ccom-launcher", "ccom-network", "ccom-window"}) {
    EXPECT_EQ(blocked[name].size(), 2u) << name;
    for (const uint64_t mask : blocked[name]) {
      for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF}) {
        EXPECT_NE(mask & (uint64_t{1} << (signal - 1)), 0u) << name << " takes signal " << signal;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Launched, testing::Values(0u, CCOM_FLAG_NO_SHARED_MEMORY));

}  // namespace
}  // namespace neuron::ccom
