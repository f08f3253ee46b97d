// SPDX-License-Identifier: Apache-2.0
// What is run, what ranks tell of it, and what becomes of that.
#include "tools/nccom-test/run/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace neuron::nccom {
namespace {

using std::chrono::milliseconds;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Options options_of(uint32_t ranks, std::vector<ccom_operation_t> operations = {CCOM_ALL_REDUCE}) {
  Options options;
  options.ranks = ranks;
  options.operations = std::move(operations);
  options.block.sweep = {8, 16, 8, {}};
  return options;
}
std::string refusal(const Options& options) {
  const auto made = make_job(options);
  return made ? "made" : made.error().sentence;
}
PairConfig pairs_of(const Phase& phase) { return phase.blocks[0].pairs; }
MATCHER_P2(Pair, source, target, "") { return arg.source == source && arg.target == target; }

TEST(Job, HasAPhaseForEachOperationGroupingAndSetOfPairs) {
  Options options = options_of(4, {CCOM_PERMUTE, CCOM_ALL_REDUCE});
  options.block.group_configs = {{{0, 1}, {2, 3}}, {{0, 1, 2, 3}}};
  options.block.pair_configs = {{{0, 1}, {2, 3}}, {{1, 0}, {3, 2}}};
  options.iterations = 7;
  options.warmup = 3;
  options.program_iterations = 5;
  options.program_warmup = 2;
  const auto job = make_job(options);
  ASSERT_TRUE(job) << job.error().sentence;
  EXPECT_EQ(job->operations, 7u);
  EXPECT_EQ(job->operations_before, 3u);
  EXPECT_EQ(job->runs, 5u);
  EXPECT_EQ(job->runs_before, 2u);
  std::vector<std::string> titles;
  for (const Phase& phase : job->phases) titles.push_back(phase.blocks[0].title);
  EXPECT_THAT(
      titles,
      ElementsAre("permute, replica groups 0, pairs 0", "permute, replica groups 0, pairs 1",
                  "permute, replica groups 1, pairs 0", "permute, replica groups 1, pairs 1",
                  "all_reduce, replica groups 0", "all_reduce, replica groups 1"));
  EXPECT_THAT(pairs_of(job->phases[0]), ElementsAre(Pair(0u, 1u))) << "in ranks of each group";
  EXPECT_THAT(pairs_of(job->phases[1]), ElementsAre(Pair(1u, 0u)));
  EXPECT_THAT(pairs_of(job->phases[3]), ElementsAre(Pair(1u, 0u), Pair(3u, 2u)));
  EXPECT_THAT(pairs_of(job->phases[4]), IsEmpty());
  EXPECT_EQ(job->phases[0].steps(), 2u);
}

TEST(Job, HasOneRowForSizesThatAreRoundedUpToTheSameOne) {
  Options options = options_of(2);
  options.block.type = CCOM_FP32;
  options.block.sweep = {3, 12, {}, {}};
  const auto job = make_job(options);
  ASSERT_TRUE(job) << job.error().sentence;
  EXPECT_THAT(job->phases[0].blocks[0].sizes, ElementsAre(3u, 5u, 9u)) << "4, 8 and 12 bytes";
}

TEST(Job, PairsAreARingOrTheFirstTwoUnlessSaid) {
  const auto job = make_job(options_of(3, {CCOM_PERMUTE, CCOM_SEND_RECEIVE, CCOM_BARRIER}));
  ASSERT_TRUE(job) << job.error().sentence;
  EXPECT_THAT(pairs_of(job->phases[0]), ElementsAre(Pair(0u, 1u), Pair(1u, 2u), Pair(2u, 0u)));
  EXPECT_THAT(pairs_of(job->phases[1]), ElementsAre(Pair(0u, 1u)));
  EXPECT_THAT(job->phases[2].blocks[0].sizes, ElementsAre(0u)) << "a barrier has no data";
  EXPECT_THAT(job->phases[0].blocks[0].groups, ElementsAre(ElementsAre(0u, 1u, 2u)));
}

TEST(Job, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_THAT(refusal(options_of(1, {CCOM_SEND_RECEIVE})),
              HasSubstr("needs a pair of ranks; there is 1 rank"));
  Options options = options_of(4, {CCOM_SEND_RECEIVE});
  options.block.pair_configs = {{{0, 1}, {2, 3}}};
  EXPECT_THAT(refusal(options), HasSubstr("takes one source and target, 2 are given"));
  options.operations = {CCOM_PERMUTE};
  options.block.group_configs = {{{0, 1}, {2, 3}}};
  EXPECT_EQ(refusal(options), "made");
  options.block.pair_configs = {{{0, 2}}};
  EXPECT_EQ(refusal(options), "the pair 0 -> 2 does not lie within one replica group");
  options.block.pair_configs = {{{0, 9}}};
  EXPECT_EQ(refusal(options), "the pair 0 -> 9 does not lie within one replica group");
  options.block.pair_configs = {{{0, 1}}};
  EXPECT_EQ(refusal(options), "replica group 1 has 0 pairs, the first one 1");
  options.block.pair_configs = {{{0, 1}, {3, 2}}};
  EXPECT_EQ(refusal(options), "replica group 1 has other pairs than the first one");
  options = options_of(4, {CCOM_BROADCAST});
  options.block.root = 3;
  EXPECT_EQ(refusal(options), "made");
  options.block.root = 4;
  EXPECT_THAT(refusal(options), HasSubstr("root 4 is not in a group of 4 ranks"));
  options = options_of(4);
  options.shared_output = true;
  EXPECT_THAT(refusal(options), HasSubstr("needs --coalesced-cc-size-ratio"));
  options.block.coalesced = {1, 2};
  EXPECT_EQ(refusal(options), "made");
  options.check = Check::kRandom;
  EXPECT_THAT(refusal(options), HasSubstr("leave --check out"));
  options = options_of(4, {CCOM_ALL_TO_ALL_V});
  options.block.coalesced = {1, 2};
  EXPECT_THAT(refusal(options), HasSubstr("cannot be coalesced"));
}

TEST(Job, AHeatMapSendsBetweenAllPairsAtTheLargestSize) {
  Options options = options_of(3);
  options.heat_map = true;
  const auto job = make_job(options);
  ASSERT_TRUE(job) << job.error().sentence;
  ASSERT_EQ(job->phases.size(), 7u);
  EXPECT_FALSE(job->phases[0].of_heat_map);
  std::vector<std::pair<uint32_t, uint32_t>> sent;
  for (size_t p = 1; p < 7; ++p) {
    EXPECT_TRUE(job->phases[p].of_heat_map);
    EXPECT_THAT(job->phases[p].blocks[0].sizes, ElementsAre(16u));
    EXPECT_EQ(job->phases[p].blocks[0].options.operation, CCOM_SEND_RECEIVE);
    sent.emplace_back(pairs_of(job->phases[p])[0].source, pairs_of(job->phases[p])[0].target);
  }
  using P = std::pair<uint32_t, uint32_t>;
  EXPECT_THAT(sent, ElementsAre(P{0, 1}, P{0, 2}, P{1, 0}, P{1, 2}, P{2, 0}, P{2, 1}));
  options.ranks = 1;
  EXPECT_EQ(refusal(options), "--heat-map needs two ranks or more");
  options.ranks = 129;
  EXPECT_THAT(refusal(options), HasSubstr("129 ranks are more than 128"));
}

TEST(Job, StreamsAreBlocksOfOnePhaseAndAShorterSweepRepeatsItsLastSize) {
  Options options = options_of(2);
  options.streams.assign(2, options.block);
  options.streams[1].operation = CCOM_ALL_GATHER;
  options.streams[1].sweep = {8, 8, {}, {}};
  const auto job = make_job(options);
  ASSERT_TRUE(job) << job.error().sentence;
  ASSERT_EQ(job->phases.size(), 1u);
  const Phase& phase = job->phases[0];
  EXPECT_EQ(phase.steps(), 2u);
  EXPECT_EQ(phase.step_of(0, 1), 1u);
  EXPECT_EQ(phase.step_of(1, 1), 0u);
  EXPECT_EQ(phase.blocks[0].stream, 0u);
  EXPECT_EQ(phase.blocks[1].stream, 1u);
  EXPECT_EQ(phase.blocks[1].title, "stream 1: all_gather");
}

TEST(Job, ARankHasItsGroupAndPlace) {
  const GroupConfig groups = {{4, 2}, {1, 3}};
  uint32_t group = 9, place = 9;
  EXPECT_TRUE(place_in(groups, 3, group, place));
  EXPECT_EQ(group, 1u);
  EXPECT_EQ(place, 1u);
  EXPECT_FALSE(place_in(groups, 0, group, place));
}

TEST(MessageLine, HasEveryField) {
  Message message;
  message.kind = Message::Kind::kDone;
  message.rank = 1;
  message.phase = 2;
  message.block = 3;
  message.step = 4;
  message.compared = 25;
  message.size = 5;
  message.count = 6;
  message.total_input = 7;
  message.total_output = 8;
  message.times_us = {0.125, 9.5};
  message.text = "ring  of\rtwo\nlines";
  EXPECT_EQ(to_line(message), "#nccom 1 1 2 3 4 25 5 6 7 8 2 0.125 9.500 ring  of two lines");
  const auto read = from_line(to_line(message));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_line(*read), to_line(message));
  EXPECT_EQ(read->kind, Message::Kind::kDone);
  EXPECT_EQ(read->phase, 2u);
  EXPECT_EQ(read->block, 3u);
  EXPECT_EQ(read->step, 4u);
  EXPECT_EQ(read->compared, 25u);
  EXPECT_EQ(read->count, 6u);
  EXPECT_EQ(read->total_input, 7u);
  EXPECT_EQ(read->total_output, 8u);
  EXPECT_EQ(read->text, "ring  of two lines");
  EXPECT_TRUE(from_line("#nccom 5 0 0 0 0 0 0 0 0 0 0 "));
  EXPECT_FALSE(from_line("#nccom 7 0 0 0 0 0 0 0 0 0 0 ")) << "there is no such kind";
  EXPECT_FALSE(from_line("#nccom 1 0 0 0 0 0 0 0 0 0 1 x "));
  EXPECT_FALSE(from_line("#nccom 1 0 0 0 0 0 0 0 0 0 1x 1 "));
}

class Collected : public ::testing::Test {
 protected:
  explicit Collected(Options options = options_of(2)) : job_(*make_job(options)) {}
  Message message(Message::Kind kind, uint32_t rank, uint32_t step = 0, std::string text = "") {
    Message made;
    made.kind = kind;
    made.rank = rank;
    made.step = step;
    made.text = std::move(text);
    return made;
  }
  void done(uint32_t rank, uint32_t step, std::vector<double> times, uint64_t size = 8) {
    Message made = message(Message::Kind::kDone, rank, step, "ring");
    made.times_us = std::move(times);
    made.size = size;
    made.count = size / 4;
    made.total_input = size;
    made.total_output = 2 * size;
    made.compared = rank == 0 ? 25 : 0;
    collector_.put(made);
  }
  const Job job_;
  Collector collector_{job_, 2};
};

TEST_F(Collected, ARowIsWhatAllRanksHaveMeasured) {
  done(0, 0, {10, 20});
  EXPECT_EQ(collector_.completed_steps(), 0u);
  EXPECT_THAT(collector_.blocks(), IsEmpty());
  done(1, 0, {30, 50}, 16);
  EXPECT_EQ(collector_.completed_steps(), 1u);
  EXPECT_EQ(collector_.steps(), 2u);
  const auto blocks = collector_.blocks();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].operation, CCOM_ALL_REDUCE);
  EXPECT_EQ(blocks[0].group_ranks, 2u);
  ASSERT_EQ(blocks[0].rows.size(), 1u);
  const Row& row = blocks[0].rows[0];
  EXPECT_EQ(row.size, 16u) << "the largest stands for all";
  EXPECT_EQ(row.count, 4u);
  EXPECT_EQ(row.total_input, 16u);
  EXPECT_EQ(row.total_output, 32u);
  EXPECT_THAT(row.times_us, ElementsAre(10, 20, 30, 50));
  EXPECT_THAT(row.rank_mean_us, ElementsAre(DoubleEq(15), DoubleEq(40)));
  EXPECT_EQ(row.checked, 1u);
  EXPECT_EQ(row.compared, 25u);
  EXPECT_EQ(row.algorithm, "ring");
  EXPECT_EQ(row.failure, "");
  done(1, 0, {1000}, 32);
  EXPECT_EQ(collector_.blocks()[0].rows[0].size, 16u) << "a rank tells once";
}

TEST_F(Collected, StepsAreCompletedInTheirOrder) {
  done(0, 1, {1});
  done(1, 1, {1});
  EXPECT_EQ(collector_.completed_steps(), 0u);
  done(0, 0, {1});
  collector_.put(message(Message::Kind::kSkipped, 1));
  EXPECT_EQ(collector_.completed_steps(), 2u);
  EXPECT_EQ(collector_.blocks()[0].rows[0].rank_mean_us[1], 0) << "it took no part";
}

TEST_F(Collected, AStepThatCannotBeDoneFailsAndTheRunGoesOn) {
  collector_.put(message(Message::Kind::kFailed, 0, 0, "no memory"));
  collector_.put(message(Message::Kind::kFailed, 1, 0, "none either"));
  EXPECT_EQ(collector_.completed_steps(), 1u);
  EXPECT_EQ(collector_.state(), Collector::State::kRunning);
  EXPECT_EQ(collector_.blocks()[0].rows[0].failure, "no memory") << "the first";
}

TEST_F(Collected, IsDoneWhenEveryRankHasEnded) {
  collector_.put(message(Message::Kind::kEnd, 0));
  collector_.put(message(Message::Kind::kEnd, 0));
  EXPECT_EQ(collector_.state(), Collector::State::kRunning);
  collector_.put(message(Message::Kind::kEnd, 1));
  EXPECT_EQ(collector_.state(), Collector::State::kDone);
}

TEST_F(Collected, TheFirstFailureIsThatOfTheStepUnderWayAndTheOthersAreNotes) {
  done(0, 0, {1});
  done(1, 0, {1});
  collector_.put(message(Message::Kind::kBroken, 1, 0, "out of memory"));
  EXPECT_EQ(collector_.state(), Collector::State::kBroken);
  const auto blocks = collector_.blocks();
  ASSERT_EQ(blocks[0].rows.size(), 2u);
  EXPECT_EQ(blocks[0].rows[0].failure, "");
  EXPECT_EQ(blocks[0].rows[1].failure, "rank 1: out of memory");
  EXPECT_EQ(blocks[0].rows[1].size, 16u);
  collector_.put(message(Message::Kind::kBroken, 0, 0, "rank 1 is gone"));
  collector_.lost(1, "its process ended");
  EXPECT_THAT(collector_.notes(), ElementsAre("rank 1 is gone")) << "rank 1 has ended before";
  for (int i = 0; i < 40; ++i) collector_.give_up("too late");
  EXPECT_EQ(collector_.notes().size(), 16u);
  collector_.lost(7, "there is none");
  EXPECT_EQ(collector_.notes().size(), 16u);
}

TEST_F(Collected, JoinsWhatSeveralRanksSayWordForWord) {
  const Job job = *make_job(options_of(9));
  Collector collector(job, 9);
  collector.lost(2, "its process was ended by signal 9");
  for (const uint32_t rank : {7, 0, 1, 3, 4, 5, 6}) {
    collector.put(message(Message::Kind::kBroken, rank, 0, "rank 2 (host a) is gone"));
  }
  collector.put(message(Message::Kind::kBroken, 8, 0, "no memory"));
  EXPECT_THAT(
      collector.notes(),
      ElementsAre("rank 2 (host a) is gone (said by ranks 0, 1 and 3 to 7)", "rank 8: no memory"));
  EXPECT_EQ(collector.blocks()[0].rows[0].failure,
            "rank 2: its process was ended by signal 9 while starting");
}

TEST_F(Collected, JoinsWhatTheFirstOfThemHasSaid) {
  const Job job = *make_job(options_of(4));
  Collector started(job, 4), told(job, 4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    started.lost(rank, "its process could not be started (ranks 0-3 on a)");
    told.put(message(Message::Kind::kBroken, rank, 0, "rank 9 is gone"));
  }
  EXPECT_TRUE(started.notes().empty());
  EXPECT_EQ(started.blocks()[0].rows[0].failure,
            "ranks 0 to 3: its process could not be started (ranks 0-3 on a) while starting");
  EXPECT_TRUE(told.notes().empty());
  EXPECT_EQ(told.blocks()[0].rows[0].failure, "rank 9 is gone (said by ranks 0 to 3)");
}

TEST_F(Collected, ThoseThatAreFurthestBehindAreMissing) {
  collector_.put(message(Message::Kind::kAt, 0, 0, "joining"));
  EXPECT_EQ(collector_.missing(), "rank 0: joining; rank 1: starting");
  collector_.put(message(Message::Kind::kAt, 1, 1, "measuring"));
  EXPECT_EQ(collector_.missing(), "rank 0: joining");
  collector_.put(message(Message::Kind::kEnd, 0));
  EXPECT_EQ(collector_.missing(), "rank 1: measuring");
}

TEST(Collector, NamesSixteenOfManyRanks) {
  const Job job = *make_job(options_of(20));
  const Collector collector(job, 20);
  const std::string text = collector.missing();
  EXPECT_THAT(text, HasSubstr("rank 15: starting; and 4 more"));
  EXPECT_EQ(text.find("rank 16"), std::string::npos);
}

TEST_F(Collected, WaitsForNewsUntilItsTime) {
  const auto begin = Collector::Clock::now();
  EXPECT_EQ(collector_.wait_until(begin + milliseconds(20)), Collector::State::kRunning);
  EXPECT_GE(Collector::Clock::now() - begin, milliseconds(20));
  const auto before = collector_.last_progress();
  std::thread tells([&] {
    std::this_thread::sleep_for(milliseconds(5));
    done(0, 0, {1});
  });
  EXPECT_EQ(collector_.wait_until(Collector::Clock::now() + std::chrono::seconds(60)),
            Collector::State::kRunning);
  tells.join();
  EXPECT_LT(Collector::Clock::now() - begin, std::chrono::seconds(50));
  EXPECT_GT(collector_.last_progress(), before);
  collector_.give_up("too late");
  EXPECT_EQ(collector_.wait_until(Collector::Clock::now() + std::chrono::seconds(60)),
            Collector::State::kBroken);
}

TEST_F(Collected, AnOperationWithinAMeasurementIsProgressAndNoNews) {
  collector_.put(message(Message::Kind::kAt, 0, 0, "measuring"));
  const auto next = [&](auto tell) {
    const auto before = collector_.last_progress();
    std::this_thread::sleep_for(milliseconds(2));
    tell();
    return collector_.last_progress() > before;
  };
  EXPECT_TRUE(next([&] { collector_.get_on(); }));
  EXPECT_TRUE(next([&] { collector_.put(message(Message::Kind::kGetsOn, 0)); }));
  EXPECT_FALSE(next([&] { collector_.put(message(Message::Kind::kGetsOn, 2)); })) << "no such rank";
  EXPECT_EQ(collector_.missing(), "rank 0: measuring; rank 1: starting");
  EXPECT_EQ(collector_.state(), Collector::State::kRunning);
}

class CollectedHeatMap : public Collected {
 protected:
  CollectedHeatMap()
      : Collected([] {
          Options options = options_of(2);
          options.heat_map = true;
          return options;
        }()) {}
};

TEST_F(CollectedHeatMap, HasTheTimeOfTheReceiverOfEachPair) {
  for (uint32_t phase = 1; phase < 3; ++phase) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Message made = message(Message::Kind::kDone, rank);
      made.phase = phase;
      made.size = 16;
      made.count = 16;
      made.times_us = {100.0 * phase + rank};
      collector_.put(made);
    }
  }
  uint64_t bytes = 0;
  const auto times = collector_.pair_times(bytes);
  EXPECT_EQ(bytes, 16u);
  EXPECT_THAT(times, ElementsAre(ElementsAre(0, 101), ElementsAre(200, 0)));
  EXPECT_THAT(collector_.blocks(), IsEmpty()) << "the table has no rows of the map";
}

}  // namespace
}  // namespace neuron::nccom
