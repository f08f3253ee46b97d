// SPDX-License-Identifier: Apache-2.0
// A thousand ranks on one host: eight processes with 128 ranks each.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ccom/bootstrap/network_bootstrap.h"
#include "tests/support/child.h"
#include "tests/unit/ccom/bootstrap/free_address.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kProcesses = 8;
// gcc defines the first two, clang the feature.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED_THREADS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED_THREADS)
constexpr uint32_t kRanksEach = 16;  // a sanitizer's threads are large
#else
constexpr uint32_t kRanksEach = 128;
#endif
constexpr uint32_t kSize = kProcesses * kRanksEach;

// Joins, gathers ranks, and returns whether all are there in order.
bool take_part(Rank rank, const std::string& root) {
  JoinOptions options;
  options.rank = rank;
  options.size = kSize;
  options.root = root;
  options.deadline = base::Deadline::after(milliseconds(60000));
  auto joined = Bootstrap::join(options);
  if (!joined) {
    fprintf(stderr, "rank %u: %s\n", rank, joined.error().sentence.c_str());
    return false;
  }
  const auto all = (*joined)->all_gather(std::as_bytes(std::span(&rank, 1)),
                                         base::Deadline::after(milliseconds(60000)));
  for (Rank i = 0; all && i < kSize; ++i) {
    if ((*all)[i].size() != sizeof(Rank) || std::memcmp((*all)[i].data(), &i, sizeof(i)) != 0) {
      return false;
    }
  }
  return static_cast<bool>(all);
}

TEST(ManyRanks, AThousandJoinOnOneHost) {
  const std::string root = free_address();
  std::vector<test::Child> children;
  for (uint32_t process = 0; process < kProcesses; ++process) {
    children.push_back(test::Child::forked([&] {
      std::atomic<uint32_t> good{0};
      std::vector<std::thread> threads;
      for (uint32_t i = 0; i < kRanksEach; ++i) {
        // Rank 0 is among the last that start.
        const Rank rank = kSize - 1 - (process * kRanksEach + i);
        threads.emplace_back([&good, &root, rank] { good += take_part(rank, root); });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      return good == kRanksEach ? 0 : 1;
    }));
  }
  for (test::Child& child : children) {
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(ManyRanks, SayHowManyDescriptorsTheyNeed) {
  auto child = test::Child::forked([] {
    const rlimit low{100, 100};
    setrlimit(RLIMIT_NOFILE, &low);
    JoinOptions options;
    options.rank = 0;
    options.size = 5000;
    options.root = "127.0.0.1:4001";
    const auto joined = Bootstrap::join(options);
    const bool named = !joined && joined.error().status == CCOM_RESOURCE &&
                       joined.error().sentence.find("needs ") != std::string::npos &&
                       joined.error().sentence.find("limit is 100") != std::string::npos;
    return named ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace neuron::ccom
