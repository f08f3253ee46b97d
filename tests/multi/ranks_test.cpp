// SPDX-License-Identifier: Apache-2.0
// Ranks of collectives in processes of their own, on one daemon.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "tests/multi/observer.h"
#include "tests/support/daemon.h"

namespace neuron::multi {
namespace {

using test::Clock;
using test::Daemon;
using test::Folder;
using test::Process;
using ::testing::HasSubstr;

constexpr unsigned kRanks = 3;

// Where nobody listens.
std::string free_address() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// kRanks processes, rank r on core r.
class Processes {
 public:
  explicit Processes(const Folder& folder, const Daemon& daemon) {
    const std::string root = free_address();
    for (unsigned rank = 0; rank < kRanks; ++rank) {
      processes_.push_back(std::make_unique<Process>(
          test::Words{test::built("tests/multi-rank"), std::to_string(rank),
                      std::to_string(kRanks)},
          test::Environment{{"NEURON_EMULATOR", daemon.emulator()},
                            {"NEURON_RT_VISIBLE_CORES", std::to_string(rank)},
                            {"NEURON_RT_ROOT_COMM_ID", root},
                            {"NEURON_RT_LOG_LEVEL", "QUIET"},
                            // Below kPatience: an execution that nobody ends is heard of, too late.
                            {"NEURON_RT_EXEC_TIMEOUT", "40"}},
          folder.path() + "/rank-" + std::to_string(rank) + ".log"));
    }
  }
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    for (const auto& process : processes_) all.push_back(process->line());
    return all;
  }
  // Says `words` to all, then hears all.
  std::vector<std::string> ask(const std::string& words) {
    for (const auto& process : processes_) process->say(words);
    return lines();
  }
  Process& operator[](unsigned rank) { return *processes_[rank]; }

 private:
  std::vector<std::unique_ptr<Process>> processes_;
};

const std::vector<std::string> kReady(kRanks, "ready");

TEST(RanksOfProcesses, AreToldWhichRankHasFailedAndWhyAndGoOnWhenAllHaveLoadedAgain) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.32xlarge");
  Processes ranks(folder, daemon);
  ASSERT_EQ(ranks.lines(), kReady);
  for (const unsigned victim : {1U, 0U}) {
    for (unsigned rank = 0; rank < kRanks; ++rank) {
      ranks[rank].say(rank == victim ? "load bad" : "load good");
    }
    ASSERT_EQ(ranks.lines(), kReady);
    const auto begin = Clock::now();
    const auto told = ranks.ask("run");
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    const std::string reason = "model 'bad' failed on device " + std::to_string(victim / 2);
    for (unsigned rank = 0; rank < kRanks; ++rank) {
      EXPECT_THAT(told[rank], HasSubstr(reason)) << rank;
      if (rank == victim) continue;
      const std::string who = "rank " + std::to_string(victim) + " has failed (" + reason;
      EXPECT_THAT(told[rank], HasSubstr("model 'good' cannot finish")) << rank;
      EXPECT_THAT(told[rank], HasSubstr(who)) << rank;
    }
    // What was told is of the past for those that load again, and the communicator goes on.
    EXPECT_EQ(ranks.ask("unload"), kReady);
    EXPECT_EQ(ranks.ask("load good"), kReady);
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(ranks.ask("run"), std::vector<std::string>(kRanks, "sum 6"));
    }
    EXPECT_EQ(ranks.ask("unload"), kReady);
  }
}

// A rank that comes late to its execution finds the news there.
TEST(RanksOfProcesses, ThatComeLateToAnExecutionAreToldToo) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.32xlarge");
  Processes ranks(folder, daemon);
  ASSERT_EQ(ranks.lines(), kReady);
  ranks[0].say("load good");
  ranks[1].say("load good");
  ranks[2].say("load bad");
  ASSERT_EQ(ranks.lines(), kReady);
  EXPECT_THAT(ranks[2].ask("run"), HasSubstr("model 'bad' failed"));
  for (const unsigned rank : {0U, 1U}) {
    const auto begin = Clock::now();
    EXPECT_THAT(ranks[rank].ask("run"), HasSubstr("rank 2 has failed (model 'bad' failed"));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST(RanksOfProcesses, KilledDuringTheirCollectivesLeaveNothingBehindAfterASecond) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.32xlarge");
  Observer observer(daemon);
  ASSERT_TRUE(observer.valid());
  uint64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    Processes ranks(folder, daemon);
    ASSERT_EQ(ranks.lines(), kReady);
    ASSERT_EQ(ranks.ask("load good"), kReady);
    ASSERT_EQ(ranks.ask("run"), std::vector<std::string>(kRanks, "sum 6"));
    // More than they will live to carry out.
    for (int run = 0; run < 2000; ++run) {
      for (unsigned rank = 0; rank < kRanks; ++rank) ranks[rank].say("run");
    }
    for (unsigned rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(ranks[rank].line(), "sum 6");
      ranks[rank].signal(SIGKILL);
    }
    const auto killed = Clock::now();
    // The first round leaves what the device keeps for itself. The memory of the dead may go after
    // their cores, so it may leave more than that for a moment.
    const auto free = [&] {
      return observer.others() == 0 && observer.cores_free() &&
             (round == 0 || observer.allocations() <= before);
    };
    EXPECT_TRUE(test::eventually(free))
        << observer.others() << " other clients, " << observer.allocations() << " allocations, "
        << before << " after the rounds before\n"
        << daemon.log();
    EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1)) << "round " << round;
    before = round == 0 ? observer.allocations() : std::min(before, observer.allocations());
  }
}

}  // namespace
}  // namespace neuron::multi
