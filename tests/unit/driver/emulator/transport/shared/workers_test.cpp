// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>

namespace neuron::transport {
namespace {

constexpr std::chrono::seconds kPatience{30};

// A process of a user of its own, or of another user.
service::Client client_process(int number) {
  return {number, static_cast<uint32_t>(number), static_cast<uint64_t>(number) + 1};
}
service::Client client_process(int number, uint32_t user) {
  return {number, user, static_cast<uint64_t>(number) + 1};
}

// As on a host that gives no more threads.
TEST(Workers, RunJobsWhenNoThreadCanBeAddedForThem) {
  Workers workers(0);
  std::promise<void> first, second;
  workers.submit(client_process(1), [&] { first.set_value(); });
  workers.submit(client_process(1), [&] { second.set_value(); });
  EXPECT_EQ(first.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(second.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(Workers, AJobThatThrowsCostsNoOtherOneAnything) {
  Workers workers(0);
  std::promise<void> done;
  testing::internal::CaptureStderr();
  workers.submit(client_process(17), [] { throw std::runtime_error("on purpose"); });
  workers.submit(client_process(1), [&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "neuron-emulatord: a call of pid 17 was given up: on purpose\n");
}

TEST(Workers, LetNoJobWaitForAnotherThatBlocks) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  std::promise<void> done;
  Workers workers(4);
  for (int i = 0; i < 3; ++i) workers.submit(client_process(i), [released] { released.wait(); });
  workers.submit(client_process(3), [&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  release.set_value();
}

TEST(Workers, KeepThreadsForOthersWhateverOneClientSubmits) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  std::atomic<int> blocked = 0, finished = 0;
  std::promise<void> last;
  Workers workers(8);
  for (int i = 0; i < 100; ++i) {
    workers.submit(client_process(1), [&, released] {
      ++blocked;
      released.wait();
      if (++finished == 100) last.set_value();
    });
  }
  // A second one that does the same takes less than what is left, and a third is still served.
  for (int i = 0; i < 100; ++i) {
    workers.submit(client_process(2), [&, released] { released.wait(); });
  }
  for (int i = 0; i < 20; ++i) {
    const auto done = std::make_shared<std::promise<void>>();
    workers.submit(client_process(3), [done] { done->set_value(); });
    const auto status = done->get_future().wait_for(kPatience);
    EXPECT_EQ(status, std::future_status::ready) << i;
    if (status != std::future_status::ready) break;
  }
  EXPECT_LE(blocked, 4);
  release.set_value();
  // What had to wait for its share has its turn after all.
  EXPECT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
}

// Also what jobs submit while all stop: ten of the twenty do, whatever runs first.
TEST(Workers, FinishWhatWasSubmittedBeforeTheyEnd) {
  std::atomic<int> first = 0;
  std::atomic<int> second = 0;
  {
    Workers workers(2);
    for (int i = 0; i < 20; ++i) {
      workers.submit(client_process(i % 3), [&, i] {
        ++first;
        if (i % 2 == 0) workers.submit(client_process(i % 3), [&] { ++second; });
      });
    }
  }
  EXPECT_EQ(first, 20);
  EXPECT_EQ(second, 10);
}

TEST(Workers, KeepThreadsForOtherUsersHoweverManyProcessesOneUserHas) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  std::atomic<int> blocked = 0;
  Workers workers(16);
  for (int i = 0; i < 100; ++i) {
    workers.submit(client_process(i, 7), [&, released] {
      ++blocked;
      released.wait();
    });
  }
  for (int i = 0; i < 20; ++i) {
    const auto done = std::make_shared<std::promise<void>>();
    workers.submit(client_process(200, 8), [done] { done->set_value(); });
    const auto status = done->get_future().wait_for(kPatience);
    EXPECT_EQ(status, std::future_status::ready) << i;
    if (status != std::future_status::ready) break;
  }
  EXPECT_LE(blocked, 8);
  release.set_value();
}

TEST(Workers, KeepThreadsForAnotherProcessOfTheSameUser) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  Workers workers(16);
  for (int i = 0; i < 100; ++i) {
    workers.submit(client_process(1, 7), [released] { released.wait(); });
  }
  std::promise<void> done;
  workers.submit(client_process(2, 7), [&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  release.set_value();
}

}  // namespace
}  // namespace neuron::transport
