// SPDX-License-Identifier: Apache-2.0
// UltraServers of one daemon: each node has a socket, and chips of different nodes reach each
// other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <random>

#include "driver/base/backoff.h"
#include "tests/multi/device_client.h"
#include "tests/multi/one_daemon.h"

namespace neuron::multi {
namespace {

using test::Daemon;
using test::Folder;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(OneDaemon, ServesEachNodeWithItsOwnDevicesAtASocketOfItsOwn) {
  const auto daemon = serve("trn2-ultraserver");
  std::string serials;
  for (unsigned node = 0; node < 4; ++node) {
    const auto run =
        test::shell(test::built("bin/neuron-ls") + " -j", {{"NEURON_EMULATOR", emulator(node)}});
    EXPECT_EQ(run.ending, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("\"neuron_device\": 15"));
    EXPECT_THAT(run.output, Not(HasSubstr("\"neuron_device\": 16")));
    const auto client = DeviceClient::open(folder_.path("host-" + std::to_string(node)));
    ASSERT_NE(client, nullptr);
    neuron_ioctl_pod_status_v2 status = {};
    status.v1.sz = sizeof(status);
    ASSERT_EQ(client->port().ioctl(NEURON_IOCTL_POD_STATUS_V2, &status), 0);
    EXPECT_EQ(status.v1.node_id, static_cast<int>(node));
    EXPECT_EQ(status.v1.pod_sz, 4);
  }
}

TEST_F(OneDaemon, ReducesTheDataOfRanksOnTwoNodesOverNeuronLink) {
  const auto daemon = serve(profile_);
  for (const char* algorithm : {"", "ring", "hierarchical"}) {
    SCOPED_TRACE(algorithm);
    Ranks team = ranks(*algorithm != 0 ? std::string("all_reduce=") + algorithm : "");
    ASSERT_EQ(team.lines(), team.all_say("ready")) << daemon->log();
    ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
    for (int run = 0; run < 5; ++run) ASSERT_EQ(team.ask("run"), team.all_say("sum 36"));
    const auto plans = team.ask("plan");
    EXPECT_THAT(plans[0], HasSubstr(", between nodes by NeuronLink"));
    EXPECT_EQ(plans, team.all_say(plans[0]));
  }
}

TEST_F(OneDaemon, GivesTheBitsOfOneInstanceWhereSumsAreInTheOrderOfTheRanks) {
  const auto daemon = serve(profile_);
  const Daemon whole(folder_, "trn2.48xlarge", {.name = "whole", .before = {}, .arguments = {}});
  std::vector<std::vector<std::string>> told;
  for (const bool one : {true, false}) {
    Ranks team = one ? Ranks(folder_, {whole.emulator()}, 2 * kEach, "mesh", kPhysicalCores, kApart)
                     : ranks("mesh");
    ASSERT_EQ(team.lines(), team.all_say("ready"));
    ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
    told.push_back(team.ask("bits"));
  }
  EXPECT_THAT(told[0][0], HasSubstr("bits "));
  EXPECT_EQ(told[0], told[1]);
}

// Counted cores have other places on each device, and on the second node they are turned round.
TEST_F(OneDaemon, GivesTheBitsOfOneInstanceWhereAlgorithmAndGroupingAreNamed) {
  const auto daemon = serve(profile_);
  const Daemon whole(folder_, "trn2.48xlarge", {.name = "whole", .before = {}, .arguments = {}});
  for (const std::string algorithm : {"hierarchical", "ring"}) {
    SCOPED_TRACE(algorithm);
    test::Environment extra = kPhysicalCores;
    extra["CCOM_GROUPING"] = std::to_string(kEach);
    std::vector<std::vector<std::string>> told;
    for (const bool one : {true, false}) {
      const std::string pinned = "all_reduce=" + algorithm;
      Ranks team = one ? Ranks(folder_, {whole.emulator()}, 2 * kEach, pinned, extra, kApart)
                       : ranks(pinned, extra);
      ASSERT_EQ(team.lines(), team.all_say("ready"));
      ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
      told.push_back(team.ask("bits"));
    }
    EXPECT_THAT(told[0][0], HasSubstr("bits "));
    EXPECT_EQ(told[0], told[1]);
  }
}

// Two daemons that serve a node each elect each other, and their ranks meet over the network.
TEST_F(OneDaemon, IsWhatJoinsTheLinksAndTwoDaemonsAreNot) {
  const auto node = [&](const std::string& number) {
    return std::make_unique<Daemon>(
        folder_, profile_,
        Daemon::Options{
            .name = "host-" + number,
            .before = {},
            .arguments = {"--pod", folder_.path(), "--pod-node", number},
        });
  };
  const auto first = node("0"), second = node("1");
  Ranks team = ranks();
  ASSERT_EQ(team.lines(), team.all_say("ready"));
  ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
  ASSERT_EQ(team.ask("run"), team.all_say("sum 36"));
  EXPECT_THAT(team.ask("plan")[0], HasSubstr(", between instances over the network"));
}

TEST_F(OneDaemon, TakesTheSameModelTimeFromRunToRunWhateverHoldsItUp) {
  const auto daemon = serve(profile_);
  std::minstd_rand random(11);
  for (const char* algorithm : {"mesh", "ring"}) {
    Ranks team = ranks(algorithm);
    ASSERT_EQ(team.lines(), team.all_say("ready"));
    ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
    ASSERT_EQ(team.ask("run"), team.all_say("sum 36"));
    const std::vector<std::string> expected = team.ask("time");
    ASSERT_THAT(expected[0], HasSubstr("time "));
    std::vector<pid_t> processes = {daemon->process().pid()};
    for (size_t rank = 0; rank < team.size(); ++rank) processes.push_back(team[rank].pid());
    for (int run = 0; run < 10; ++run) {
      for (size_t rank = 0; rank < team.size(); ++rank) team[rank].say("time");
      for (int i = 0; i < 4; ++i) {
        const pid_t process = processes[random() % processes.size()];
        ::kill(process, SIGSTOP);
        base::sleep_for(std::chrono::microseconds(random() % 2000));
        ::kill(process, SIGCONT);
      }
      ASSERT_EQ(team.lines(), expected) << "run " << run << ", " << algorithm;
    }
  }
}

TEST_F(OneDaemon, ToldToStandAloneHasNodesThatMeetOverTheNetwork) {
  const auto daemon = serve(profile_);
  std::vector<std::unique_ptr<DeviceClient>> clients;
  for (unsigned node = 0; node < 2; ++node) {
    clients.push_back(DeviceClient::open(folder_.path("host-" + std::to_string(node))));
    neuron_ioctl_pod_ctrl_v2 alone = {};
    alone.v1.sz = sizeof(alone);
    alone.v1.ctrl = NEURON_NPE_POD_CTRL_SET_MODE;
    alone.mode = NEURON_ULTRASERVER_MODE_X1;
    ASSERT_EQ(clients.back()->port().ioctl(NEURON_IOCTL_POD_CTRL_V2, &alone), 0);
  }
  Ranks team = ranks();
  ASSERT_EQ(team.lines(), team.all_say("ready"));
  ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
  ASSERT_EQ(team.ask("run"), team.all_say("sum 36"));
  EXPECT_THAT(team.ask("plan")[0], HasSubstr(", between instances over the network"));
}

TEST_F(OneDaemon, NamesARankOfAnotherNodeThatWasKilled) {
  const auto daemon = serve(profile_);
  Ranks team = ranks();
  ASSERT_EQ(team.lines(), team.all_say("ready"));
  ASSERT_EQ(team.ask("load good"), team.all_say("ready"));
  ASSERT_EQ(team.ask("run"), team.all_say("sum 36"));
  team[5].signal(SIGKILL);  // its core, and no other, is reset
  for (const size_t rank : {0U, 4U}) team[rank].say("run");
  for (const size_t rank : {0U, 4U}) EXPECT_THAT(team[rank].line(), HasSubstr("rank 5")) << rank;
}

TEST_F(OneDaemon, RunsEveryOperationOverTwoNodesWithCheckedResults) {
  const auto daemon = serve(profile_);
  const auto run = test::shell(
      "NEURON_EMULATOR=" + emulator(0) + " NEURON_RT_ROOT_COMM_ID=127.0.0.1:" +
          std::to_string(test::free_port()) + " " + test::built("bin/nccom-test") +
          " -r 12 -N 2 --hosts 0 1 --launch-command 'env NEURON_EMULATOR=unix:" +
          folder_.path("host-") +
          "{host}' -b 64 -e 64K -f 32 -n 3 -d bf16 --check random "
          "--show-algorithm allr allg redsct alltoall broadcast reduce gather scatter sendrecv "
          "permute barrier allgv reduce_scatterv alltoallv 2>&1",
      {}, std::chrono::seconds(120));
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr(" results compared, all right"));
  EXPECT_THAT(run.output, HasSubstr("    mesh/NeuronLink\n"));
  EXPECT_THAT(run.output, Not(HasSubstr("/network")));
}

TEST_F(OneDaemon, JoinsAllFourNodesOfAWholeUltraServerByLinksOrByASwitch) {
  for (const char* profile : {"trn2-ultraserver", "trn3-ultraserver-gen1"}) {
    SCOPED_TRACE(profile);
    const auto daemon = serve(profile);
    const auto run =
        test::shell("NEURON_EMULATOR=" + emulator(0) + " NEURON_RT_ROOT_COMM_ID=127.0.0.1:" +
                        std::to_string(test::free_port()) + " " + test::built("bin/nccom-test") +
                        " -r 8 -N 4 --hosts 0 1 2 3 --launch-command 'env NEURON_EMULATOR=unix:" +
                        folder_.path("host-") +
                        "{host}' -b 4K -e 64K -f 16 -n 2 -d fp32 --check random --show-algorithm "
                        "allr allg 2>&1",
                    {}, std::chrono::seconds(120));
    EXPECT_EQ(run.ending, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr(" results compared, all right"));
    EXPECT_THAT(run.output, HasSubstr("/NeuronLink\n"));
    EXPECT_THAT(run.output, Not(HasSubstr("/network")));
  }
}

TEST(UltraServerOfADaemon, IsRefusedWithASentence) {
  const Folder folder;
  const auto refused = [&](const std::string& options) {
    return test::shell(test::built("bin/neuron-emulatord") + " --ultraserver " + options + " 2>&1");
  };
  const std::string socket = " --socket " + folder.path("socket");
  auto run = refused("--profile trn2.48xlarge" + socket);
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("trn2.48xlarge is no node of an UltraServer"));
  run = refused("--profile trn3-ultraserver-gen2" + socket);
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("one daemon serves at most 4 nodes"));
  run = refused("--profile trn2-ultraserver");
  EXPECT_EQ(run.ending, 2);
  EXPECT_THAT(run.output, HasSubstr("--ultraserver needs --socket PATH"));
  run = refused("--profile trn2-ultraserver --pod " + folder.path() + " --pod-node 0" + socket);
  EXPECT_EQ(run.ending, 2);
}

}  // namespace
}  // namespace neuron::multi
