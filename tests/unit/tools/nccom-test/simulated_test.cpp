// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/simulated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/support/sanitized.h"

namespace neuron::nccom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ran {
  ccom::Result<SimulatedRun> run;
  std::string progress;  // the last words
};

Ran simulated(std::vector<std::string> arguments, const std::string& size) {
  for (const char* word : {"-b", size.c_str(), "-e", size.c_str()}) arguments.emplace_back(word);
  Usage usage;
  const auto options = parse_options(arguments, usage);
  if (!options) return {options.error(), ""};
  const auto job = make_job(*options);
  if (!job) return {job.error(), ""};
  Ran ran{SimulatedRun{}, ""};
  ran.run =
      run_simulated(*options, *job, 1, [&](const std::string& words) { ran.progress = words; });
  return ran;
}

// The most memory that a process of its own had which simulated this, in bytes; 0: it failed.
uint64_t peak_of(const std::vector<std::string>& arguments, const std::string& size) {
  const pid_t child = fork();
  if (child == 0) {
    const auto ran = simulated(arguments, size);
    const bool good = ran.run && ran.run->blocks.front().rows.front().failure.empty() &&
                      ran.run->blocks.front().rows.front().times_us.front() > 0;
    _exit(good ? 0 : 1);
  }
  int status = 1;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Every operation whose ranks are symmetric, and those of a root. The bound in time is the test's.
TEST(Simulated, AHundredThousandChipsNeedAtMostTwoGibibytes) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and time of its own";
  for (const char* operation : {"allr", "allg", "alltoall", "broadcast", "barrier"}) {
    const uint64_t peak =
        peak_of({operation, "--simulate", "trn1.32xlarge", "--chips", "100000"}, "64M");
    EXPECT_GT(peak, 0u) << operation;
    EXPECT_LE(peak, uint64_t{2} << 30) << operation;
  }
}

TEST(Simulated, ManyPeersOfARankLeaveNoMemoryBehind) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and time of its own";
  // 8192 ranks that each exchange with all others.
  const uint64_t peak = peak_of(
      {"allr", "--simulate", "trn1.32xlarge", "--chips", "4096", "--algorithm", "mesh"}, "64M");
  EXPECT_GT(peak, 0u);
  EXPECT_LE(peak, uint64_t{200} << 20);
}

TEST(Simulated, ANamedAlgorithmThatDoesNotFitIsRefusedAtOnceWithAnEstimate) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> words = {"broadcast", "--simulate",  "trn1.32xlarge",
                                          "--chips",   "100000",      "--memory",
                                          "16M",       "--algorithm", "one_step_mesh"};
  const auto ran = simulated(words, "64M");
  ASSERT_TRUE(ran.run) << ran.run.error().sentence;
  const Row& row = ran.run->blocks.front().rows.front();
  EXPECT_THAT(row.failure, HasSubstr("needs about"));
  EXPECT_THAT(row.failure, HasSubstr("--memory allows 16.8 MB"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Simulated, AnAutomaticChoiceTakesAnAlgorithmThatFits) {
  const auto whole = simulated({"allr", "--simulate", "trn1.32xlarge", "--chips", "1024"}, "64K");
  ASSERT_TRUE(whole.run) << whole.run.error().sentence;
  for (const char* memory : {"2M", "1G"}) {
    const auto ran = simulated(
        {"allr", "--simulate", "trn1.32xlarge", "--chips", "1024", "--memory", memory}, "64K");
    ASSERT_TRUE(ran.run) << ran.run.error().sentence;
    EXPECT_EQ(ran.run->blocks.front().rows.front().failure, "") << memory;
  }
}

TEST(Simulated, CountsOfEveryPairThatDoNotFitAreRefusedBeforeTheyAreMade) {
  const auto ran =
      simulated({"alltoallv", "--simulate", "trn1.32xlarge", "--chips", "100000"}, "64M");
  ASSERT_FALSE(ran.run);
  EXPECT_THAT(ran.run.error().sentence, HasSubstr("a count for each pair of ranks"));
}

TEST(Simulated, UnequalBlocksOfVeryManyRanksAreTakenAsEqualAndThatIsSaid) {
  const auto ran =
      simulated({"all_gatherv", "--simulate", "trn1.32xlarge", "--chips", "8192"}, "64M");
  ASSERT_TRUE(ran.run) << ran.run.error().sentence;
  EXPECT_EQ(ran.run->blocks.front().rows.front().failure, "");
  ASSERT_EQ(ran.run->notes.size(), 1u);
  EXPECT_THAT(*ran.run->notes.begin(), HasSubstr("average size"));
}

TEST(Simulated, ProgressTellsSizeAlgorithmAndShare) {
  const auto ran = simulated(
      {"allr", "--simulate", "trn1.32xlarge", "--chips", "512", "--algorithm", "ring"}, "64M");
  ASSERT_TRUE(ran.run) << ran.run.error().sentence;
  EXPECT_THAT(ran.progress, HasSubstr("67108864 B by ring: "));
  EXPECT_THAT(ran.progress, HasSubstr("% of"));
}

double ring_time(const std::string& size, std::vector<std::string> more,
                 const std::string& operation = "allr") {
  std::vector<std::string> words = {operation, "--simulate",  "trn1.32xlarge", "--chips",
                                    "32",      "--algorithm", "ring"};
  words.insert(words.end(), more.begin(), more.end());
  const auto ran = simulated(words, size);
  EXPECT_TRUE(ran.run) << ran.run.error().sentence;
  if (!ran.run) return 0;
  const Row& row = ran.run->blocks.front().rows.front();
  EXPECT_EQ(row.failure, "");
  return row.failure.empty() ? row.times_us.front() : 0;
}

// A ring of 64 ranks has 126 rounds.
TEST(Simulated, CostsOfStepsContentionAndFailuresTakeTime) {
  const double small = ring_time("64K", {"--costs", "none"});
  EXPECT_GT(small, 0);
  EXPECT_GT(ring_time("64K", {"--costs", "chips"}), small + 30);
  EXPECT_GT(ring_time("64K", {"--costs", "send=1000"}), small);
  EXPECT_GT(ring_time("64K", {"--costs", "message=1000,local=20"}), small + 20);
  const double large = ring_time("512M", {"--costs", "none"});
  EXPECT_GT(ring_time("512M", {"--costs", "reduce=2,copy=5"}), 1.2 * large);
  EXPECT_GT(ring_time("512M", {"--costs", "none", "--contention", "memory"}), 0.99 * large);
  EXPECT_GT(ring_time("512M", {"--costs", "none", "--contention", "none"}), 0.99 * large);
  EXPECT_GT(ring_time("512M", {"--costs", "none", "--fail", "1/nic3"}), 1.2 * large);
  EXPECT_GT(ring_time("512M", {"--costs", "none", "--fail", "0/0-1", "1/nic3"}), 1.2 * large);
}

// What is not named costs nothing.
TEST(Simulated, EachCostTakesTimeOfItsOwn) {
  for (const auto& [cost, operation] : {std::pair{"send=9e6", "allr"},
                                        {"receive=9e6", "allr"},
                                        {"message=9e6", "allr"},
                                        {"local=9e6", "allr"},
                                        {"reduce=0.01", "allr"},
                                        {"copy=0.0001", "allg"}}) {
    EXPECT_GT(ring_time("64M", {"--costs", cost}, operation),
              1.5 * ring_time("64M", {"--costs", "none"}, operation))
        << cost;
  }
}

TEST(Simulated, CostsAndLinksThatCannotBeReadAreNamed) {
  const auto sentence = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"allr", "--simulate", "trn1.32xlarge", "--chips", "32"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = simulated(words, "1M");
    return ran.run ? std::string("accepted") : ran.run.error().sentence;
  };
  EXPECT_THAT(sentence({"--costs", "speed=3"}), HasSubstr("speed=3"));
  EXPECT_THAT(sentence({"--costs", "send=fast"}), HasSubstr("send=fast"));
  EXPECT_THAT(sentence({"--fail", "0/0-2"}), HasSubstr("no link between chips 0 and 2"));
  EXPECT_THAT(sentence({"--fail", "2/nic0"}), HasSubstr("no NIC 0 in node 2"));
}

TEST(Simulated, RanksOfOneInstancePayWhatItsChipsTake) {
  const auto ran =
      simulated({"allr", "--simulate", "trn1.32xlarge", "-r", "2", "-d", "fp32"}, "4K");
  ASSERT_TRUE(ran.run) << ran.run.error().sentence;
  EXPECT_THAT(ran.run->model, HasSubstr("chips"));
  const Row& row = ran.run->blocks.front().rows.front();
  EXPECT_EQ(row.algorithm, "mesh") << "as devices choose";
  // Two exchanges and a reduction, each with the start of a transfer.
  EXPECT_GT(row.times_us.front(), 3 * 1.3);
  EXPECT_LT(row.times_us.front(), 6);
  EXPECT_TRUE(ran.run->notes.empty());
}

TEST(Simulated, WhoAsksForChipsIsToldWhereTheModelOfLinksTakesTheirPlace) {
  const std::vector<std::string> words = {"allr", "--simulate", "trn1.32xlarge", "-r", "64"};
  const auto silent = simulated(words, "1K");
  ASSERT_TRUE(silent.run) << silent.run.error().sentence;
  EXPECT_TRUE(silent.run->notes.empty());
  std::vector<std::string> asked = words;
  asked.insert(asked.end(), {"--model", "chips"});
  const auto told = simulated(asked, "1K");
  ASSERT_TRUE(told.run) << told.run.error().sentence;
  ASSERT_EQ(told.run->notes.size(), 1u);
  EXPECT_THAT(*told.run->notes.begin(), AllOf(HasSubstr("the ranks are on several instances"),
                                              HasSubstr("times are those of the model of links")));
  asked[4] = "2";
  asked.insert(asked.end(), {"--window", "4"});
  const auto window = simulated(asked, "1K");
  ASSERT_TRUE(window.run) << window.run.error().sentence;
  ASSERT_EQ(window.run->notes.size(), 1u);
  EXPECT_THAT(*window.run->notes.begin(), HasSubstr("--window is of the model of links"));
}

}  // namespace
}  // namespace neuron::nccom
