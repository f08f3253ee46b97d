// SPDX-License-Identifier: Apache-2.0
// Collectives of devices whose ranks are on several instances: each instance is a daemon, or a
// process with devices of its own. Its devices reach each other; the others are behind the network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <random>

#include "driver/base/backoff.h"
#include "tests/multi/instance_ranks.h"
#include "tests/multi/observer.h"
#include "tests/support/daemon.h"
#include "tests/support/free_port.h"
#include "tests/support/sanitized.h"

namespace neuron::multi {
namespace {

using test::Clock;
using test::Daemon;
using test::Folder;
using ::testing::HasSubstr;

Daemon daemon_of(const Folder& folder, const std::string& name) {
  return Daemon(folder, "trn1.2xlarge", {.name = name, .before = {}, .arguments = {}});
}

TEST(Instances, WithADaemonEachReduceTheDataOfAllTheirRanks) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  Ranks ranks(folder, {first.emulator(), second.emulator()}, 2);
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  for (int load = 0; load < 2; ++load) {
    ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
    for (int run = 0; run < 20; ++run) ASSERT_EQ(ranks.ask("run"), ranks.all_say("sum 10"));
    ASSERT_EQ(ranks.ask("unload"), ranks.all_say("ready"));
  }
}

// The notifications of a CC core have one queue: that of the model that is on the core. The numbers
// differ each time, or a result of before would look right.
TEST(Instances, ExecuteTwoModelsOfOneCoreInTurn) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  Ranks ranks(folder, {first.emulator(), second.emulator()}, 2);
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("run"), ranks.all_say("sum 10"));
  ASSERT_EQ(ranks.ask("load second"), ranks.all_say("ready"));
  unsigned times = 1;
  for (const char* model : {"run", "run", "second", "run", "second", "second", "run"}) {
    ++times;
    ASSERT_EQ(ranks.ask(std::string(model) + " " + std::to_string(times)),
              ranks.all_say("sum " + std::to_string(10 * times)))
        << model;
  }
}

// A mesh sums in the order of the ranks, and so does what two instances take by themselves. A
// ring's order follows the links, so it is another one.
TEST(Instances, GiveTheBitsOfOneInstanceWhereSumsAreInTheOrderOfTheRanks) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  const Daemon whole(folder, "trn1.32xlarge", {.name = "whole", .before = {}, .arguments = {}});
  std::vector<std::vector<std::string>> told;
  for (const auto& [one, algorithm] : {std::pair{true, "mesh"}, {false, "mesh"}, {false, ""}}) {
    Ranks ranks(
        folder,
        one ? std::vector{whole.emulator()} : std::vector{first.emulator(), second.emulator()},
        one ? 4 : 2, algorithm);
    ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
    ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
    told.push_back(ranks.ask("bits"));
  }
  EXPECT_THAT(told[0][0], HasSubstr("bits "));
  EXPECT_EQ(told[0], told[1]);
  EXPECT_EQ(told[0], told[2]) << "without a named algorithm";
  EXPECT_EQ(told[0], std::vector<std::string>(4, told[0][0]));
}

// The ranks, and the daemons, are stopped for up to two milliseconds again and again.
std::vector<std::string> times_while_held_up(Ranks& ranks, const std::vector<pid_t>& processes,
                                             std::minstd_rand& random) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].say("time");
  for (int i = 0; i < 4; ++i) {
    const pid_t process = processes[random() % processes.size()];
    ::kill(process, SIGSTOP);
    base::sleep_for(std::chrono::microseconds(random() % 2000));
    ::kill(process, SIGCONT);
  }
  return ranks.lines();
}

// Hierarchical sums are those of groups first; on one instance there are none unless they are
// named.
TEST(Instances, GiveTheBitsOfOneInstanceWhereAlgorithmAndGroupingAreNamed) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  const Daemon whole(folder, "trn1.32xlarge", {.name = "whole", .before = {}, .arguments = {}});
  for (const std::string algorithm : {"hierarchical", "ring", "mesh"}) {
    SCOPED_TRACE(algorithm);
    std::vector<std::vector<std::string>> told;
    for (const bool one : {true, false}) {
      Ranks ranks(
          folder,
          one ? std::vector{whole.emulator()} : std::vector{first.emulator(), second.emulator()},
          one ? 4 : 2, "all_reduce=" + algorithm, {{"CCOM_GROUPING", "2"}});
      ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
      ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
      told.push_back(ranks.ask("bits"));
    }
    EXPECT_THAT(told[0][0], HasSubstr("bits "));
    EXPECT_EQ(told[0], told[1]);
  }
}

// An instance type with so many chips, each of which reaches every other one. They have the cores
// of generation 3: the addresses of generation 2 name 16 chips.
std::string with_chips(const Folder& folder, unsigned count) {
  std::string chips;
  for (unsigned chip = 0; chip < count; ++chip) {
    chips += (chip == 0 ? "" : ",") + ("{\"routing_id\":" + std::to_string(chip)) +
             ",\"address\":\"0000:" + std::to_string(10 + chip) +
             ":1c.0\",\"numa_node\":-1,\"neighbours\":[]}";
  }
  const std::string name = "chips-" + std::to_string(count);
  const std::string path = folder.path() + "/" + name + ".json";
  test::write_file(path, "{\"name\":\"" + name +
                             "\",\"devices\":{\"pci_device\":\"0x7364\","
                             "\"revision\":1,\"generation\":3,\"cores\":8,\"hbm\":{\"stacks\":4,"
                             "\"gib\":24},\"adapters\":[],\"fabric\":\"switch\",\"chips\":[" +
                             chips + "]}}");
  return path;
}

// Ranks of one physical core each.
const test::Environment kPhysicalCores = {{"NEURON_LOGICAL_NC_CONFIG", "1"},
                                          {"NEURON_RT_ALLOW_LEGACY_NEFF", "1"}};

// What ranks say to "bits", those of one instance first, then those of two with half of them each;
// `apart` and `neighbours` as Ranks has them. The groups are those of an instance of two.
std::vector<std::vector<std::string>> bits_of_one_and_of_two(
    const Folder& folder, const std::vector<std::string>& one, const std::vector<std::string>& two,
    unsigned each, const std::string& algorithm, unsigned apart, unsigned neighbours) {
  std::vector<std::vector<std::string>> told;
  for (const auto* emulators : {&one, &two}) {
    SCOPED_TRACE(emulators == &one ? "one instance" : "two instances");
    test::Environment extra = kPhysicalCores;
    extra["CCOM_GROUPING"] = std::to_string(each);
    Ranks ranks(folder, *emulators, emulators == &one ? 2 * each : each, "all_reduce=" + algorithm,
                extra, apart, neighbours);
    EXPECT_EQ(ranks.lines(), ranks.all_say("ready"));
    EXPECT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
    EXPECT_EQ(ranks.ask("run"), ranks.all_say("sum " + std::to_string(each * (2 * each + 1))));
    told.push_back(ranks.ask("bits"));
    EXPECT_THAT(told.back()[0], HasSubstr("bits "));
    EXPECT_EQ(told.back(), ranks.all_say(told.back()[0]));
  }
  return told;
}

// Which physical core a counted one is depends on the number of its device. Here cores 0, 2, 4 and
// 6 are the physical cores 4, 6, 2 and 0 of device 0, and 2, 0, 4 and 6 of device 1.
TEST(Instances, GiveTheBitsOfOneInstanceWhateverPhysicalCoresTheRanksAreOn) {
  const Folder folder;
  const auto daemon = [&](const std::string& name, unsigned chips) {
    return Daemon(folder, with_chips(folder, chips), {.name = name, .before = {}, .arguments = {}});
  };
  const Daemon first = daemon("first", 1), second = daemon("second", 1), whole = daemon("whole", 2);
  for (const std::string algorithm : {"hierarchical", "ring"}) {
    SCOPED_TRACE(algorithm);
    const auto told = bits_of_one_and_of_two(
        folder, {whole.emulator()}, {first.emulator(), second.emulator()}, 4, algorithm, 2, 1);
    EXPECT_EQ(told[0], told[1]);
  }
}

// Two cores of each chip: of 32 chips on one instance, of 16 on each of two.
void expect_the_bits_of_two_instances_of_thirty_two_ranks(unsigned apart, unsigned neighbours) {
  const Folder folder;
  const auto daemon = [&](const std::string& name, const std::string& profile) {
    return Daemon(folder, profile, {.name = name, .before = {}, .arguments = {}});
  };
  const Daemon first = daemon("first", "trn2.48xlarge"), second = daemon("second", "trn2.48xlarge");
  const Daemon whole = daemon("whole", with_chips(folder, 32));
  for (const std::string algorithm : {"hierarchical", "ring"}) {
    SCOPED_TRACE(algorithm);
    const auto told =
        bits_of_one_and_of_two(folder, {whole.emulator()}, {first.emulator(), second.emulator()},
                               32, algorithm, apart, neighbours);
    EXPECT_EQ(told[0], told[1]);
  }
}

TEST(Instances, OfThirtyTwoRanksEachGiveTheBitsOfOneOfSixtyFour) {
  if (test::kSanitized) {
    GTEST_SKIP() << "64 processes of a sanitizer take more memory than a host has";
  }
  expect_the_bits_of_two_instances_of_thirty_two_ranks(8, 2);
}

TEST(Instances, OfThirtyTwoRanksEachGiveTheBitsOfOneOfSixtyFourOnCoresOfBothDies) {
  if (test::kSanitized) {
    GTEST_SKIP() << "64 processes of a sanitizer take more memory than a host has";
  }
  expect_the_bits_of_two_instances_of_thirty_two_ranks(4, 1);
}

TEST(Instances, TakeTheSameModelTimeFromRunToRunWhateverHoldsTheirProcessesUp) {
  const Folder folder;
  Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  Daemon whole(folder, "trn1.32xlarge", {.name = "whole", .before = {}, .arguments = {}});
  const std::vector<std::string> of_each[] = {{whole.emulator()},
                                              {first.emulator(), second.emulator()}};
  std::minstd_rand random(11);
  for (const auto& emulators : of_each) {
    for (const char* algorithm : {"mesh", "ring"}) {
      Ranks ranks(folder, emulators, static_cast<unsigned>(4 / emulators.size()), algorithm);
      ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
      ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
      ASSERT_EQ(ranks.ask("run"), ranks.all_say("sum 10"));
      const std::vector<std::string> expected = ranks.ask("time");
      ASSERT_THAT(expected[0], HasSubstr("time "));
      std::vector<pid_t> processes = {whole.process().pid(), first.process().pid(),
                                      second.process().pid()};
      for (size_t rank = 0; rank < ranks.size(); ++rank) processes.push_back(ranks[rank].pid());
      for (int run = 0; run < 15; ++run) {
        ASSERT_EQ(times_while_held_up(ranks, processes, random), expected)
            << "run " << run << ", " << emulators.size() << " instances, " << algorithm;
      }
    }
  }
}

TEST(Instances, MayBeProcessesWithDevicesOfTheirOwn) {
  const Folder folder;
  Ranks ranks(folder, {"trn1.2xlarge", "trn1.2xlarge", "trn1.2xlarge"}, 1);
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
  for (int run = 0; run < 5; ++run) ASSERT_EQ(ranks.ask("run"), ranks.all_say("sum 6"));
}

TEST(Instances, MayEndWithoutUnloadingAnything) {
  const Folder folder;
  // The look for leaks does not survive what is still mapped then.
  Ranks ranks(folder, {"trn1.2xlarge", "trn1.2xlarge"}, 1, "",
              {{"ASAN_OPTIONS", "detect_leaks=0"}});
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("run"), ranks.all_say("sum 3"));
  for (const size_t rank : {0U, 1U}) ranks[rank].say("exit");
  for (const size_t rank : {0U, 1U}) EXPECT_EQ(ranks[rank].wait(), 0) << rank;
}

TEST(Instances, AreToldWhichRankOfAnotherOneFailedAndGoOnWhenAllHaveLoadedAgain) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  Ranks ranks(folder, {first.emulator(), second.emulator()}, 2);
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  for (size_t rank = 0; rank < 4; ++rank) ranks[rank].say(rank == 3 ? "load bad" : "load good");
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  const auto begin = Clock::now();
  const auto told = ranks.ask("run");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
  EXPECT_THAT(told[3], HasSubstr("model 'bad' failed on device 0"));
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(told[rank], HasSubstr("rank 3 has failed (model 'bad' failed")) << rank;
  }
  EXPECT_EQ(ranks.ask("unload"), ranks.all_say("ready"));
  EXPECT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
  EXPECT_EQ(ranks.ask("run"), ranks.all_say("sum 10"));
}

TEST(Instances, NameARankOfAnotherOneThatWasKilled) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first"), second = daemon_of(folder, "second");
  Ranks ranks(folder, {first.emulator(), second.emulator()}, 2);
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("run"), ranks.all_say("sum 10"));
  ranks[2].signal(SIGKILL);
  const auto begin = Clock::now();
  for (const size_t rank : {0U, 1U, 3U}) ranks[rank].say("run");
  for (const size_t rank : {0U, 1U, 3U}) {
    EXPECT_THAT(ranks[rank].line(), HasSubstr("rank 2")) << rank;
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST(Instances, AreToldWhenTheDevicesOfAnotherOneAreGone) {
  const Folder folder;
  const Daemon first = daemon_of(folder, "first");
  Daemon second = daemon_of(folder, "second");
  Ranks ranks(folder, {first.emulator(), second.emulator()}, 1);
  ASSERT_EQ(ranks.lines(), ranks.all_say("ready"));
  ASSERT_EQ(ranks.ask("load good"), ranks.all_say("ready"));
  second.process().signal(SIGKILL);
  const auto begin = Clock::now();
  const auto told = ranks.ask("run");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
  EXPECT_THAT(told[0], HasSubstr("rank 1 has failed"));
  EXPECT_THAT(told[1], HasSubstr("failed "));
}

TEST(Instances, RunEveryOperationWithCheckedResults) {
  const auto run = test::shell(
      "NEURON_EMULATOR=trn1.2xlarge NEURON_RT_ROOT_COMM_ID=127.0.0.1:" +
          std::to_string(test::free_port()) + " " + test::built("bin/nccom-test") +
          " -r 4 -N 2 --hosts a b --launch-command 'env HOST={host}' -b 64 -e 64K -f 32 -n 3 "
          "-d bf16 --check random allr allg redsct alltoall broadcast reduce gather scatter "
          "sendrecv permute barrier allgv reduce_scatterv alltoallv 2>&1",
      {}, std::chrono::seconds(120));
  EXPECT_EQ(run.ending, 0) << run.output;
  // 3 sizes and 8 executions, 5 of which warm up. Of 13 operations, 10 have a result on each of the
  // 4 ranks; reduce and gather on the root alone, sendrecv on the target alone. A barrier has none.
  const int results = 3 * 8 * (10 * 4 + 3);
  EXPECT_THAT(run.output, HasSubstr("backend device; " + std::to_string(results) +
                                    " results compared, all right"));
}

TEST(Instances, ThatAreTooSmallAreToldWithTheCoresThatTheirRanksGet) {
  const auto run = test::shell(
      "NEURON_EMULATOR=trn1.2xlarge NEURON_RT_ROOT_COMM_ID=127.0.0.1:" +
          std::to_string(test::free_port()) + " " + test::built("bin/nccom-test") +
          " -r 8 -N 2 --hosts a b --launch-command 'env HOST={host}' -b 64 -e 64 allr 2>&1",
      {}, std::chrono::seconds(120));
  EXPECT_EQ(run.ending, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("take cores 0-3 of the instance, which has 4 ranks: "));
}

TEST(Instances, OnAHostTooManyAreTold) {
  const auto run = test::shell(
      test::built("bin/nccom-test") +
          " -r 2 -N 2 --hosts a b c --root-comm-id 127.0.0.1:" + std::to_string(test::free_port()) +
          " --backend network --launch-command 'env HOST={host}' -b 8 -e 8 -n 2 allr 2>&1",
      {}, std::chrono::seconds(60));
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("; host c takes no part, as --nnodes is 2"));
}

}  // namespace
}  // namespace neuron::multi
