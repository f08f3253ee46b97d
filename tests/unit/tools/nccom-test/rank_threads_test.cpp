// SPDX-License-Identifier: Apache-2.0
// Ranks of a job in threads of this process: what they are told, and what becomes of those that
// wait for ranks that do not come.
#include "tools/nccom-test/run/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

namespace neuron::nccom {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

Options two_sizes(uint32_t ranks) {
  Options options;
  options.ranks = ranks;
  options.operations = {CCOM_ALL_REDUCE};
  options.block.sweep = {8, 16, 8, {}};
  options.iterations = 2;
  options.warmup = 1;
  return options;
}

// What the ranks of a job say, from their threads.
class Said {
 public:
  Sink sink() {
    return [this](const Message& message) {
      const std::lock_guard lock(mutex_);
      list_.push_back(message);
    };
  }
  std::vector<Message> of(Message::Kind kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<Message> some;
    for (const Message& message : list_) {
      if (message.kind == kind) some.push_back(message);
    }
    return some;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Message> list_;
};

TEST(RankThreads, RunAllRanksOfAJobToItsEnd) {
  const Options options = two_sizes(3);
  const Job job = *make_job(options);
  Said said;
  auto threads =
      RankThreads::start({&options, &job, 7, Backend::kHost}, {0, 3}, "", "", said.sink());
  ASSERT_TRUE(threads) << threads.error().sentence;
  EXPECT_TRUE((*threads)->ended(std::chrono::minutes(1)));
  EXPECT_EQ(said.of(Message::Kind::kEnd).size(), 3u);
  EXPECT_TRUE(said.of(Message::Kind::kBroken).empty());
}

// Nobody is rank 0 of this job.
TEST(RankThreads, WaitForOtherRanksAsLongAsTheOptionsSay) {
  Options options = two_sizes(2);
  options.timeout_ms = 300;
  const Job job = *make_job(options);
  Said said;
  auto threads = RankThreads::start({&options, &job, 7, Backend::kHost}, {1, 1}, "127.0.0.1:1",
                                    "secret of a test", said.sink());
  ASSERT_TRUE(threads) << threads.error().sentence;
  EXPECT_TRUE((*threads)->ended(std::chrono::seconds(20)));
  const std::vector<Message> broken = said.of(Message::Kind::kBroken);
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].rank, 1u);
  EXPECT_THAT(broken[0].text, HasSubstr("rank 0 was not reached"));
}

}  // namespace
}  // namespace neuron::nccom
