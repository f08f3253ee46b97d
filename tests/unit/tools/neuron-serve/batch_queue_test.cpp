// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/batch_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace neuron::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Question : public Job {
 public:
  explicit Question(uint32_t count, seconds patience = seconds(60)) {
    rows = count;
    accepted = Clock::now();
    deadline = accepted + patience;
  }
  void finished() override {}
};

Jobs questions(std::initializer_list<uint32_t> rows) {
  Jobs jobs;
  for (const uint32_t count : rows) jobs.push_back(std::make_shared<Question>(count));
  return jobs;
}

bool add(BatchQueue& queue, std::initializer_list<uint32_t> rows) {
  for (const uint32_t count : rows) {
    if (!queue.admit(count)) return false;
  }
  Jobs jobs = questions(rows);
  return queue.push(jobs);
}

TEST(BatchQueue, GivesASingleRequestOutAtOnce) {
  BatchQueue queue(8, 64, seconds(10));
  ASSERT_TRUE(add(queue, {1}));
  const auto start = Clock::now();
  EXPECT_EQ(queue.take().rows, 1u);
  EXPECT_LT(Clock::now() - start, seconds(1));
}

TEST(BatchQueue, FillsABatchInOrderAndKeepsWhatDoesNotFit) {
  BatchQueue queue(8, 64, seconds(10));
  ASSERT_TRUE(add(queue, {3, 4, 2, 5}));
  const BatchQueue::Batch first = queue.take();
  EXPECT_EQ(first.rows, 7u);
  EXPECT_EQ(first.jobs.size(), 2u);
  EXPECT_EQ(queue.waiting_rows(), 7u);
  EXPECT_EQ(queue.take().rows, 7u);
  EXPECT_EQ(queue.waiting_rows(), 0u);
}

TEST(BatchQueue, FreesThePlaceOfAJobThatIsCancelledAndKeepsTheOthersInOrder) {
  BatchQueue queue(8, 8, seconds(10));
  Jobs jobs = questions({3, 4, 1});
  const Jobs asked = jobs;
  for (const auto& job : asked) ASSERT_TRUE(queue.admit(job->rows));
  ASSERT_TRUE(queue.push(jobs));
  EXPECT_FALSE(queue.admit(4));
  EXPECT_TRUE(queue.cancel(*asked[1]));
  EXPECT_FALSE(queue.cancel(*asked[1])) << "it does not wait any more";
  EXPECT_EQ(queue.waiting_rows(), 4u);
  EXPECT_TRUE(queue.admit(4));
  queue.withdraw(4);
  const BatchQueue::Batch batch = queue.take();
  ASSERT_EQ(batch.jobs.size(), 2u);
  EXPECT_EQ(batch.jobs[0], asked[0]);
  EXPECT_EQ(batch.jobs[1], asked[2]);
  EXPECT_FALSE(queue.cancel(*asked[0])) << "it is being computed";
  EXPECT_EQ(queue.waiting_rows(), 0u);
}

TEST(BatchQueue, WaitsForAsManyAsCameBefore) {
  BatchQueue queue(8, 64, seconds(30));
  ASSERT_TRUE(add(queue, {1, 1, 1, 1}));
  EXPECT_EQ(queue.take().rows, 4u);
  ASSERT_TRUE(add(queue, {1, 1}));
  std::thread late([&] { add(queue, {1, 1}); });
  EXPECT_EQ(queue.take().rows, 4u);
  late.join();
}

TEST(BatchQueue, StopsWaitingForACrowdThatHasGone) {
  BatchQueue queue(8, 64, milliseconds(200));
  ASSERT_TRUE(add(queue, {1, 1, 1, 1}));
  EXPECT_EQ(queue.take().rows, 4u);
  for (const bool adapted : {false, true}) {
    ASSERT_TRUE(add(queue, {1}));
    const auto start = Clock::now();
    EXPECT_EQ(queue.take().rows, 1u);
    if (!adapted) {
      EXPECT_GE(Clock::now() - start, milliseconds(10));
    }
    EXPECT_LT(Clock::now() - start, milliseconds(150));
  }
}

TEST(BatchQueue, AdmitsAsManyRowsAsItsLimit) {
  BatchQueue queue(4, 10, seconds(1));
  EXPECT_TRUE(add(queue, {4, 4}));
  EXPECT_FALSE(queue.admit(3));
  EXPECT_TRUE(queue.admit(2));
  queue.withdraw(2);
  EXPECT_EQ(queue.take().rows, 4u);
  EXPECT_TRUE(queue.admit(4));
}

TEST(BatchQueue, HasRoomForABatchWhateverTheLimit) {
  BatchQueue queue(4, 1, seconds(1));
  EXPECT_TRUE(queue.admit(4));
}

TEST(BatchQueue, SortsOutWhatIsTooLate) {
  BatchQueue queue(8, 64, seconds(1));
  Jobs jobs = {std::make_shared<Question>(2, seconds(-1)), std::make_shared<Question>(3)};
  ASSERT_TRUE(queue.admit(5));
  ASSERT_TRUE(queue.push(jobs));
  const BatchQueue::Batch batch = queue.take();
  EXPECT_EQ(batch.late.size(), 1u);
  EXPECT_EQ(batch.rows, 3u);
  EXPECT_EQ(queue.waiting_rows(), 0u);
}

TEST(BatchQueue, RefusesWhenClosedAndGivesOutWhatWaits) {
  BatchQueue queue(8, 64, seconds(30));
  ASSERT_TRUE(add(queue, {1, 1, 1}));
  EXPECT_EQ(queue.take().rows, 3u);
  ASSERT_TRUE(add(queue, {1}));
  queue.close();
  EXPECT_FALSE(queue.closed());
  Jobs jobs = questions({1});
  EXPECT_FALSE(queue.push(jobs));
  EXPECT_EQ(jobs.size(), 1u);
  EXPECT_EQ(queue.take().rows, 1u);
  EXPECT_TRUE(queue.closed());
  EXPECT_TRUE(queue.take().jobs.empty());
  queue.open();
  ASSERT_TRUE(add(queue, {2}));
  EXPECT_EQ(queue.clear().size(), 1u);
  EXPECT_EQ(queue.waiting_rows(), 0u);
}

}  // namespace
}  // namespace neuron::serve
