// SPDX-License-Identifier: Apache-2.0
// Faults of an UltraServer that one daemon serves: links between its nodes, processes on a node and
// the daemon itself. Whoever waits is told of what, and all goes on afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "driver/base/backoff.h"
#include "tests/multi/one_daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/sanitized.h"

namespace neuron::multi {
namespace {

using test::Clock;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// So long a wait for what is there is none.
constexpr auto kSoon = std::chrono::seconds(10);

void expect_to_run(Ranks& team) {
  ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
  ASSERT_EQ(team.ask("run"), team.all_say("sum 36"));
}

TEST_F(OneDaemon, NamesTheChipsAndTheNodesBetweenWhichALinkIsDown) {
  const auto daemon = serve(profile_);
  Ranks team = ranks();
  ASSERT_EQ(team.lines(), team.all_say("ready"));
  expect_to_run(team);
  ASSERT_EQ(control(0, "link down 0 1:0").ending, 0);
  for (const unsigned node : {0U, 1U}) {
    EXPECT_THAT(control(node, "status").output, HasSubstr("link 0 of node 0 - 0 of node 1: down"));
  }
  const auto begin = Clock::now();
  const auto told = team.ask("run");
  EXPECT_LT(Clock::now() - begin, kSoon);
  for (size_t rank = 0; rank < team.size(); ++rank) {
    EXPECT_THAT(told[rank],
                AnyOf(ContainsRegex("found no way over links that work from device [01] to device "
                                    "0 .routing id 0. of node [01] of the UltraServer, whose node "
                                    "[01] this host is"),
                      ContainsRegex("rank [0-7] has failed .*found no way over links")))
        << rank;
  }
  EXPECT_THAT(told, Contains(HasSubstr("of node 1 of the UltraServer, whose node 0 this host is")));
  ASSERT_EQ(control(1, "link up 0 0:0").ending, 0) << "either node's socket brings it up";
  EXPECT_THAT(control(0, "status").output, Not(HasSubstr("link")));
  ASSERT_EQ(team.ask("unload"), team.all_say("ready"));
  expect_to_run(team);
}

// Whatever the ranks are at when the link goes, they finish or say why not.
TEST_F(OneDaemon, TellsEveryRankOfALinkThatGoesDownAtAnyMoment) {
  constexpr int kRuns = 20;
  const auto daemon = serve(profile_);
  std::minstd_rand random(5);
  int broken_off = 0;
  for (const char* algorithm : {"mesh", "ring"}) {
    SCOPED_TRACE(algorithm);
    Ranks team = ranks(algorithm);
    ASSERT_EQ(team.lines(), team.all_say("ready"));
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(round);
      expect_to_run(team);
      for (int run = 0; run < kRuns; ++run) {
        for (size_t rank = 0; rank < team.size(); ++rank) team[rank].say("run");
      }
      base::sleep_for(std::chrono::microseconds(random() % 20'000));
      ASSERT_EQ(control(0, round % 2 == 0 ? "link down 0 1:0" : "link down 1:1 1").ending, 0);
      const auto begin = Clock::now();
      size_t sums = 0, causes = 0;
      for (int run = 0; run < kRuns + 1; ++run) {
        const auto told = run < kRuns ? team.lines() : team.ask("run");
        for (const std::string& line : told) {
          EXPECT_THAT(line, AnyOf("sum 36", HasSubstr("found no way over links that work"),
                                  HasSubstr("do not agree any more")));
          sums += line == "sum 36" ? 1 : 0;
          causes += line.find("found no way") != std::string::npos ? 1 : 0;
        }
      }
      EXPECT_LT(Clock::now() - begin, kSoon);
      EXPECT_EQ(causes, team.size()) << "every rank once";
      broken_off += sums != 0 && sums < kRuns * team.size() ? 1 : 0;
      ASSERT_EQ(control(0, "clear").ending, 0);
      ASSERT_EQ(team.ask("unload"), team.all_say("ready"));
    }
  }
  EXPECT_GT(broken_off, 0) << "of 12 rounds in which ranks were at work";
}

// A CC core counts credits of 128 ranks, and here are 132.
TEST_F(OneDaemon, OfMoreRanksThanCreditsAreCountedOfRunsThemOverTheNetwork) {
  if (test::kSanitized) {
    GTEST_SKIP() << "132 cores of a sanitizer take more memory than a host has";
  }
  const auto daemon = serve("trn2-ultraserver");
  test::Environment environment = kPhysicalCores;
  environment["NEURON_EMULATOR"] = emulator(0);
  environment["NEURON_RT_ROOT_COMM_ID"] = "127.0.0.1:" + std::to_string(test::free_port());
  const auto run = test::shell(
      test::built("bin/nccom-test") +
          " -r 132 -N 4 --hosts 0 1 2 3 --launch-command 'env NEURON_EMULATOR=unix:" +
          folder_.path("host-") +
          "{host}' -b 4K -e 4K -n 1 -w 0 -d fp32 --check random --show-algorithm allr 2>&1",
      environment, std::chrono::seconds(250));
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("the 132 ranks of an UltraServer are more than the 128 whose "
                                    "credits a collective core counts: its 4 nodes exchange data "
                                    "over the network"));
  EXPECT_THAT(run.output, HasSubstr("132 results compared, all right"));
  EXPECT_THAT(run.output, HasSubstr("hierarchical/network\n"));
}

TEST_F(OneDaemon, RefusesALinkThatThereIsNotWithThoseThatThereAre) {
  const auto daemon = serve(profile_);
  auto run = control(0, "link down 0 1:1");
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("devices 0 and 1 of node 1 have no link; device 0 is linked "
                                    "with 1, 0 of node 1"));
  run = control(1, "link down 0 2:0");
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("there is no node 2; an emulated small-ultraserver has nodes 0 "
                                    "to 1"));
  run = control(0, "link down 0 1:");
  EXPECT_EQ(run.ending, 2);
  EXPECT_THAT(run.output, HasSubstr("found '1:', expected a device"));
}

TEST_F(OneDaemon, HasFromTheStartTheLinkDownThatAPlanNames) {
  const std::string plan =
      folder_.write("plan", R"({"at":"link","kind":"down","a":1,"a_node":0,"b":1,"b_node":1})");
  const auto daemon = serve(profile_, {"env", "NEURON_EMULATOR_FAULTS=" + plan});
  EXPECT_THAT(control(1, "status").output, HasSubstr("link 1 of node 0 - 1 of node 1: down"));
}

TEST_F(OneDaemon, NamesARankOfANodeWhoseProcessesWereAllKilled) {
  const auto daemon = serve(profile_);
  Ranks team = ranks();
  ASSERT_EQ(team.lines(), team.all_say("ready"));
  expect_to_run(team);
  for (size_t rank = 0; rank < kEach; ++rank) team[rank].say("run");
  for (size_t rank = kEach; rank < team.size(); ++rank) team[rank].signal(SIGKILL);
  const auto begin = Clock::now();
  for (size_t rank = 0; rank < kEach; ++rank) {
    EXPECT_THAT(team[rank].line(), ContainsRegex("rank [4-7]")) << rank;
  }
  EXPECT_LT(Clock::now() - begin, kSoon);
  // The killed ones' devices become free, and the others' are unharmed.
  for (size_t rank = 0; rank < kEach; ++rank) team[rank].signal(SIGKILL);
  for (const unsigned node : {0U, 1U}) {
    EXPECT_TRUE(test::eventually([&] {
      return control(node, "status").output.find("process ") == std::string::npos;
    })) << control(node, "status").output;
  }
  Ranks next = ranks();
  ASSERT_EQ(next.lines(), next.all_say("ready"));
  expect_to_run(next);
}

TEST_F(OneDaemon, NamesTheRanksOfANodeWhoseProcessesWereAllStopped) {
  const auto daemon = serve(profile_);
  Ranks team = ranks("", {{"NEURON_RT_EXEC_TIMEOUT", "3"}});
  ASSERT_EQ(team.lines(), team.all_say("ready"));
  expect_to_run(team);
  for (size_t rank = kEach; rank < team.size(); ++rank) team[rank].signal(SIGSTOP);
  for (size_t rank = 0; rank < kEach; ++rank) team[rank].say("run");
  const auto begin = Clock::now();
  for (size_t rank = 0; rank < kEach; ++rank) {
    EXPECT_THAT(team[rank].line(),
                AllOf(HasSubstr("has not finished on device"), HasSubstr("NEURON_RT_EXEC_TIMEOUT"),
                      ContainsRegex("for rank [4-7] ")))
        << rank;
  }
  EXPECT_LT(Clock::now() - begin, kSoon);
  for (size_t rank = kEach; rank < team.size(); ++rank) team[rank].signal(SIGCONT);
  ASSERT_EQ(team.ask("unload"), team.all_say("ready"));
  expect_to_run(team);
}

TEST_F(OneDaemon, WhoseDaemonWasKilledIsNamedByEveryRankWithTheSocketOfItsNode) {
  const auto daemon = serve(profile_);
  {
    Ranks team = ranks();
    ASSERT_EQ(team.lines(), team.all_say("ready"));
    expect_to_run(team);
    for (size_t rank = 0; rank < team.size(); ++rank) team[rank].say("run");
    daemon->restart();
    const auto begin = Clock::now();
    auto told = team.lines();
    // Who had finished before is told at its next run.
    if (std::count(told.begin(), told.end(), "sum 36") != 0) told = team.ask("run");
    EXPECT_LT(Clock::now() - begin, kSoon);
    for (size_t rank = 0; rank < team.size(); ++rank) {
      EXPECT_THAT(told[rank], AnyOf(HasSubstr("the daemon at " + folder_.path("host-") +
                                              std::to_string(rank / kEach) + " is gone"),
                                    ContainsRegex("rank [0-7] has failed .*the daemon at ")))
          << rank;
    }
  }
  Ranks next = ranks();
  ASSERT_EQ(next.lines(), next.all_say("ready"));
  expect_to_run(next);
}

}  // namespace
}  // namespace neuron::multi
