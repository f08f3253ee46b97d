// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-postmortem/analysis/verdict.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/golden.h"

namespace neuron::tools {
namespace {

using base::format;

struct Made {
  uint64_t number;
  const char* status = "CCOM_SUCCESS";  // "": under way
  uint64_t count = 8;
  uint32_t waiting_for = 0;
};

std::string operations(const std::vector<Made>& list) {
  std::string text;
  for (const Made& made : list) {
    const bool under_way = *made.status == 0;
    text += format(
        "{}{{\"operation\": \"all_reduce\", \"number\": {}, \"stream\": 0, \"type\": \"fp32\", "
        "\"reduction\": \"add\", \"algorithm\": \"mesh\", \"count\": {}, \"root\": 0, \"detail\": "
        "\"0\", \"begin_ns\": {}, \"end_ns\": {}, \"bytes\": 0, \"status\": \"{}\", \"steps\": 0, "
        "\"waiting_for\": {}}}",
        text.empty() ? "" : ",", made.number, made.count, made.number * 10 + 1,
        under_way ? 0 : made.number * 10 + 5, under_way ? "under_way" : made.status,
        made.waiting_for);
  }
  return "[" + text + "]";
}

std::string dump(uint32_t rank, const std::vector<Made>& list, const std::string& status,
                 const std::string& sentence, const std::string& dead = "",
                 const std::string& seen = "") {
  return format(
      "{{\"format\": \"ccom-flight-1\", \"rank\": {}, \"ranks\": 3, \"host\": \"b\", \"process\": "
      "{}, \"time_ns\": {}, \"status\": \"{}\", \"sentence\": \"{}\", \"begun\": {}, \"members\": "
      "[{{\"rank\": 0, \"host\": \"b\", \"process\": 10}}, {{\"rank\": 1, \"host\": \"b\", "
      "\"process\": 11}}, {{\"rank\": 2, \"host\": \"b\", \"process\": 12}}], \"dead\": [{}], "
      "\"operations\": {}, \"seen\": [{}]}}",
      rank, 10 + rank, 1000 + rank, status, sentence, list.empty() ? 0 : list.back().number + 1,
      dead, operations(list), seen);
}

Evidence merge(const std::vector<std::string>& dumps) {
  Evidence evidence;
  for (const std::string& text : dumps) {
    const auto added = add_dump(evidence, text, "dump");
    EXPECT_TRUE(added) << added.error().sentence;
  }
  return evidence;
}

TEST(Verdict, FindsNothingWhereNothingFailed) {
  const Verdict verdict = judge(
      merge({dump(0, {{0}, {1}}, "CCOM_SUCCESS", ""), dump(1, {{0}, {1}}, "CCOM_SUCCESS", "")}));
  EXPECT_EQ(verdict.cause, Cause::kNone);
  EXPECT_EQ(verdict.silent, std::vector<uint32_t>{2});
}

TEST(Verdict, NamesTheDeadRankThatOthersSaw) {
  const std::string seen =
      format("{{\"rank\": 2, \"begun\": 5, \"operations\": {}}}", operations({{3}, {4}}));
  const std::string sentence = "rank 2 (host b, pid 12) died: killed by signal 9 (Killed); x";
  const Verdict verdict =
      judge(merge({dump(0, {{4}, {5, "CCOM_RANK_DEAD"}}, "CCOM_RANK_DEAD", sentence, "2", seen),
                   dump(1, {{4}, {5, "CCOM_RANK_DEAD"}}, "CCOM_RANK_DEAD", sentence, "2")}));
  EXPECT_EQ(verdict.cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.culprits, std::vector<uint32_t>{2});
  EXPECT_EQ(verdict.waiting, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(
      verdict.sentence,
      "rank 2 (host b, pid 12) died: killed by signal 9 (Killed); it never began all_reduce 5 "
      "of stream 0; its last operation was all_reduce 4 of stream 0, ended 1970-01-01 "
      "00:00:00.000000Z; 2 ranks wait for it");
}

TEST(Verdict, NamesTheRankThatNeverBegan) {
  const Verdict verdict = judge(merge({dump(0, {{4}, {5, "CCOM_TIMEOUT"}}, "CCOM_TIMEOUT", "late"),
                                       dump(1, {{4}}, "CCOM_TIMEOUT", "late"),
                                       dump(2, {{4}, {5, ""}}, "CCOM_TIMEOUT", "late")}));
  EXPECT_EQ(verdict.cause, Cause::kMissingRank);
  EXPECT_EQ(verdict.culprits, std::vector<uint32_t>{1});
  EXPECT_EQ(verdict.waiting, (std::vector<uint32_t>{0, 2}));
}

TEST(Verdict, NamesBothCallsOfTheFirstDifference) {
  const Verdict verdict =
      judge(merge({dump(0, {{4}, {5, "CCOM_MISMATCH", 8}}, "CCOM_MISMATCH", "x"),
                   dump(1, {{4}, {5, "CCOM_MISMATCH", 9}}, "CCOM_MISMATCH", "x")}));
  EXPECT_EQ(verdict.cause, Cause::kMismatch);
  EXPECT_NE(verdict.sentence.find("rank 0 (host b, pid 10) called all_reduce(8 x fp32"),
            std::string::npos)
      << verdict.sentence;
  EXPECT_NE(verdict.sentence.find("called all_reduce(9 x fp32"), std::string::npos);
}

TEST(Verdict, FollowsWaitsToTheRankThatStopped) {
  const Verdict verdict = judge(merge({dump(0, {{5, "", 8, 1}}, "CCOM_TIMEOUT", "x"),
                                       dump(1, {{5, "", 8, 2}}, "CCOM_TIMEOUT", "x"),
                                       dump(2, {{5, "", 8, 2}}, "CCOM_TIMEOUT", "x")}));
  EXPECT_EQ(verdict.cause, Cause::kStuckRank);
  EXPECT_EQ(verdict.culprits, std::vector<uint32_t>{2});
}

TEST(Verdict, FindsACircleOfWaits) {
  const Verdict verdict = judge(merge({dump(0, {{5, "", 8, 1}}, "CCOM_TIMEOUT", "x"),
                                       dump(1, {{5, "", 8, 2}}, "CCOM_TIMEOUT", "x"),
                                       dump(2, {{5, "", 8, 0}}, "CCOM_TIMEOUT", "x")}));
  EXPECT_EQ(verdict.cause, Cause::kCircle);
  EXPECT_EQ(verdict.culprits.size(), 3u);
}

// What a rank of this host showed when another wrote its dump.
std::string seen_of(uint32_t rank, const std::vector<Made>& list) {
  return format("{{\"rank\": {}, \"begun\": {}, \"operations\": {}}}", rank, list.back().number + 1,
                operations(list));
}

TEST(Verdict, OfAProcessThatStandsStillNamesItAndNoCircle) {
  // Rank 2 is stopped in the operation, in which it waits for rank 0 as rank 0 does for it.
  const std::string still = seen_of(2, {{4}, {5, "", 8, 0}});
  for (const char* status : {"CCOM_TIMEOUT", "CCOM_ABORTED"}) {
    const Evidence evidence =
        merge({dump(0, {{4}, {5, status, 8, 2}}, status, "rank 0 (host b) aborted: x", "", still),
               dump(1, {{4}, {5, status, 8, 0}}, status, "rank 0 (host b) aborted: x", "", still)});
    const Verdict verdict = judge(evidence);
    EXPECT_EQ(verdict.cause, Cause::kStuckRank) << verdict.sentence;
    EXPECT_EQ(verdict.culprits, std::vector<uint32_t>{2});
    EXPECT_EQ(verdict.waiting, (std::vector<uint32_t>{0, 1}));
    EXPECT_EQ(
        verdict.sentence.substr(0, verdict.sentence.find("; rank 0 ")),
        "rank 2 wrote no dump, and rank 0 (host b, pid 10) waits for rank 2 (host b, pid 12) in "
        "all_reduce 5 of stream 0; look whether its process stands still or cannot be reached, or "
        "add its dump; 2 ranks wait for it");
    EXPECT_NE(text_of(verdict, evidence)
                  .find(format("all_reduce 5 of stream 0, which failed with {} 1970", status)),
              std::string::npos)
        << text_of(verdict, evidence);
  }
}

TEST(Verdict, OfAProcessThatStandsStillInAnEarlierOperationIsThatItNeverBeganTheLater) {
  // The others had all they needed of it, and went on.
  const std::string still = seen_of(2, {{4}, {5, "", 8, 0}});
  const Verdict verdict =
      judge(merge({dump(0, {{5}, {6, "CCOM_TIMEOUT", 8, 2}}, "CCOM_TIMEOUT", "x", "", still),
                   dump(1, {{5}, {6, "CCOM_TIMEOUT", 8, 0}}, "CCOM_TIMEOUT", "x", "", still)}));
  EXPECT_EQ(verdict.cause, Cause::kMissingRank);
  EXPECT_EQ(verdict.culprits, std::vector<uint32_t>{2});
  EXPECT_NE(verdict.sentence.find("never began all_reduce 6 of stream 0 and wrote no dump"),
            std::string::npos)
      << verdict.sentence;
}

TEST(Verdict, DoesNotSayOfRanksThatNoDumpShowsThatTheyBegan) {
  const Verdict verdict = judge(merge({dump(0, {{5, "CCOM_TIMEOUT", 8, 1}}, "CCOM_TIMEOUT", "x"),
                                       dump(1, {{5, "CCOM_TIMEOUT", 8, 0}}, "CCOM_TIMEOUT", "x")}));
  EXPECT_EQ(verdict.cause, Cause::kCircle);
  EXPECT_EQ(verdict.sentence.find("all ranks that are known began"), 0u) << verdict.sentence;
}

TEST(Verdict, OfManyDumpsThatAreMissingBlamesOnlyTheRanksThatOthersWaitFor) {
  const Verdict verdict = judge(merge({dump(0, {{5, "CCOM_TIMEOUT", 8, 2}}, "CCOM_TIMEOUT", "x")}));
  EXPECT_EQ(verdict.cause, Cause::kStuckRank);
  EXPECT_EQ(verdict.culprits, std::vector<uint32_t>{2});
}

TEST(Verdict, NamesWhoAborted) {
  const Verdict verdict =
      judge(merge({dump(1, {{5, "CCOM_ABORTED"}}, "CCOM_ABORTED", "rank 2 (host b) aborted")}));
  EXPECT_EQ(verdict.cause, Cause::kAborted);
  EXPECT_NE(verdict.sentence.find("rank 2 (host b) aborted"), std::string::npos);
}

TEST(Verdict, OfEveryCauseIsWrittenAsBefore) {
  const std::string dead = "rank 2 (host b, pid 12) died: killed by signal 9 (Killed); x";
  const std::string seen =
      format("{{\"rank\": 2, \"begun\": 5, \"operations\": {}}}", operations({{3}, {4}}));
  const std::vector<std::vector<std::string>> jobs = {
      {dump(0, {{0}}, "CCOM_SUCCESS", ""), dump(1, {{0}}, "CCOM_SUCCESS", "")},
      {dump(0, {{4}, {5, "CCOM_RANK_DEAD"}}, "CCOM_RANK_DEAD", dead, "2", seen)},
      {dump(0, {{4}, {5, "CCOM_TIMEOUT"}}, "CCOM_TIMEOUT", "late"),
       dump(1, {{4}}, "CCOM_TIMEOUT", "late"), dump(2, {{4}, {5, ""}}, "CCOM_TIMEOUT", "late")},
      {dump(0, {{4}, {5, "CCOM_MISMATCH", 8}}, "CCOM_MISMATCH", "x"),
       dump(1, {{4}, {5, "CCOM_MISMATCH", 9}}, "CCOM_MISMATCH", "x")},
      {dump(0, {{5, "", 8, 1}}, "CCOM_TIMEOUT", "x"), dump(1, {{5, "", 8, 2}}, "CCOM_TIMEOUT", "x"),
       dump(2, {{5, "", 8, 2}}, "CCOM_TIMEOUT", "x")},
      {dump(0, {{5, "", 8, 1}}, "CCOM_TIMEOUT", "x"), dump(1, {{5, "", 8, 2}}, "CCOM_TIMEOUT", "x"),
       dump(2, {{5, "", 8, 0}}, "CCOM_TIMEOUT", "x")},
      {dump(1, {{5, "CCOM_ABORTED"}}, "CCOM_ABORTED", "rank 2 (host b) aborted")},
      {dump(1, {{5, "CCOM_SYSTEM"}}, "CCOM_SYSTEM", "the network is gone")}};
  std::string text;
  for (const auto& dumps : jobs) {
    const Evidence evidence = merge(dumps);
    const Verdict verdict = judge(evidence);
    text += std::string(name_of(verdict.cause)) + "\n" + text_of(verdict, evidence) +
            json_of(verdict, evidence) + "----\n";
  }
  neuron::testing::expect_golden("postmortem.txt", text);
}

TEST(Evidence, RefusesWhatIsNoDumpWithFileAndField) {
  Evidence evidence;
  const std::string good = dump(0, {{4}}, "CCOM_SUCCESS", "");
  for (size_t length = 0; length < good.size(); length += 7) {
    const auto added = add_dump(evidence, good.substr(0, length), "a.json");
    ASSERT_FALSE(added);
    EXPECT_NE(added.error().sentence.find("a.json"), std::string::npos);
  }
  std::string broken = good;
  broken.replace(broken.find("\"count\""), 7, "\"cuont\"");
  const auto added = add_dump(evidence, broken, "a.json");
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().sentence.find("\"count\""), std::string::npos) << added.error().sentence;
  EXPECT_FALSE(add_dump(evidence, "[[[[[[[[[[[[]]]]]]]]]]]]", "a.json"));
}

}  // namespace
}  // namespace neuron::tools
