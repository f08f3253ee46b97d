// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "tests/support/daemon.h"
#include "tests/system/network/history.h"
#include "tests/system/network/lab.h"
#include "tests/system/network/operation.h"

namespace neuron::network {
namespace {

using test::Folder;
using test::Process;

constexpr uint32_t kDeadlineMs = 2500;
constexpr uint32_t kPort = 45123;
constexpr uint64_t kAfterwards = 6;  // operations of a communicator that must work

uint32_t ranks_of_comm[8];  // for the reference: communicators may differ in size
uint64_t reference(uint32_t rank, uint32_t comm, uint64_t sequence) {
  return expected_hash(rank, ranks_of_comm[comm % 8], comm, sequence);
}

// The ranks of a job, node after node, and what they tell.
class Ranks {
 public:
  Ranks(const Lab& lab, uint32_t of_host) : lab_(lab), of_host_(of_host) {
    for (uint32_t rank = 0; rank < lab.hosts() * of_host; ++rank) {
      processes_.push_back(nullptr);
      restart(rank);
    }
  }

  uint32_t count() const { return static_cast<uint32_t>(processes_.size()); }
  uint32_t host(uint32_t rank) const { return rank / of_host_; }
  Process& operator[](uint32_t rank) { return *processes_[rank]; }

  void restart(uint32_t rank) {
    processes_[rank] =
        std::make_unique<Process>(test::Words{"/sbin/ip", "netns", "exec", lab_.name(host(rank)),
                                              test::built("tests/network-rank")},
                                  test::Environment{}, folder_.path("log"));
  }

  // Members by their places in the communicator; every one must say that it has joined.
  void join(uint32_t comm, const std::vector<uint32_t>& members, uint32_t port) {
    ranks_of_comm[comm] = static_cast<uint32_t>(members.size());
    const std::string root = lab_.address(host(members.front())) + ":" + std::to_string(port);
    for (uint32_t place = 0; place < members.size(); ++place) {
      (*this)[members[place]].say("join " + std::to_string(comm) + " " + std::to_string(place) +
                                  " " + std::to_string(members.size()) + " " + root + " " +
                                  std::to_string(kDeadlineMs));
    }
    for (const uint32_t member : members) {
      EXPECT_EQ(until(member, {"joined", "refused"}), "joined " + std::to_string(comm))
          << "rank " << member;
    }
  }

  void start(const std::vector<uint32_t>& members, uint64_t operations) {
    for (const uint32_t member : members) {
      (*this)[member].say("run " + std::to_string(operations));
    }
  }
  void finish(const std::vector<uint32_t>& members) {
    for (const uint32_t member : members) {
      EXPECT_EQ(until(member, {"ran"}), "ran") << "rank " << member;
    }
  }
  void leave(const std::vector<uint32_t>& members) {
    for (const uint32_t member : members) (*this)[member].say("leave");
    for (const uint32_t member : members) {
      EXPECT_EQ(until(member, {"left"}), "left") << "rank " << member;
    }
  }

  // Collects events up to a line that begins with one of the words.
  std::string until(uint32_t rank, const std::vector<std::string>& words) {
    for (int lines = 0; lines < 1'000'000; ++lines) {
      const std::string line = (*this)[rank].line();
      if (const auto event = from_line(line)) {
        events.push_back(*event);
        continue;
      }
      for (const std::string& word : words) {
        if (line.rfind(word, 0) == 0) return line;
      }
      if (line == "(nothing)" || line == "(end)") return line;
    }
    return "(too much)";
  }

  // Reads what a rank has said until it has done so many operations.
  void wait_for_operations(uint32_t rank, uint64_t operations) {
    while (true) {
      const std::string line = (*this)[rank].line();
      const auto event = from_line(line);
      if (!event) return;
      events.push_back(*event);
      if (event->kind != Event::Kind::kBegin && event->sequence + 1 >= operations) return;
    }
  }

  std::vector<uint32_t> all() const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < count(); ++rank) ranks.push_back(rank);
    return ranks;
  }

  std::vector<Event> events;

 private:
  const Lab& lab_;
  uint32_t of_host_;
  Folder folder_;
  std::vector<std::unique_ptr<Process>> processes_;
};

std::vector<uint32_t> without(std::vector<uint32_t> ranks, uint32_t gone) {
  ranks.erase(std::remove(ranks.begin(), ranks.end(), gone), ranks.end());
  return ranks;
}

struct Shape {
  uint32_t hosts, of_host;
};

class Network : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!Lab::permitted()) {
      std::fprintf(stderr, "NOT RUN: this user may not make network namespaces; run as root\n");
      GTEST_SKIP() << "this user may not make network namespaces; run as root";
    }
    lab_ = std::make_unique<Lab>(GetParam().hosts);
    ASSERT_TRUE(lab_->ready()) << lab_->failure();
    ranks_ = std::make_unique<Ranks>(*lab_, GetParam().of_host);
  }

  Expectations expectations() const {
    Expectations expected;
    expected.ranks = ranks_->count();
    expected.deadline_ms = kDeadlineMs;
    return expected;
  }

  void expect_good_history(const Expectations& expected) {
    for (const std::string& complaint : check(ranks_->events, expected, reference)) {
      ADD_FAILURE() << complaint;
    }
  }

  // Everything works in spite of what the switch does.
  void expect_all_well(uint64_t operations) {
    ranks_->join(0, ranks_->all(), kPort);
    ranks_->start(ranks_->all(), operations);
    ranks_->finish(ranks_->all());
    Expectations expected = expectations();
    expected.good = {{0, ranks_->all(), operations}};
    expect_good_history(expected);
  }

  // Operations without end until `harm` breaks them; `heal`, and a new communicator of `members`.
  template <class Harmful, class Heal>
  void expect_failure_and_recovery(Expectations expected, const std::vector<uint32_t>& told,
                                   const std::vector<uint32_t>& members, Harmful&& harm,
                                   Heal&& heal) {
    ranks_->join(0, ranks_->all(), kPort);
    ranks_->start(ranks_->all(), 0);
    ranks_->wait_for_operations(0, 10);
    harm();
    ranks_->finish(told);
    heal();
    ranks_->leave(told);
    ranks_->join(1, members, kPort + 1);
    ranks_->start(members, kAfterwards);
    ranks_->finish(members);
    std::vector<uint32_t> places;
    for (uint32_t i = 0; i < members.size(); ++i) places.push_back(i);
    expected.good = {{1, places, kAfterwards}};
    expect_good_history(expected);
  }

  // By rank: those on other hosts.
  std::vector<std::set<uint32_t>> on_other_side(uint32_t cut_host) const {
    std::vector<std::set<uint32_t>> result(ranks_->count());
    for (uint32_t a = 0; a < ranks_->count(); ++a) {
      for (uint32_t b = 0; b < ranks_->count(); ++b) {
        if ((ranks_->host(a) == cut_host) != (ranks_->host(b) == cut_host)) result[a].insert(b);
      }
    }
    return result;
  }

  std::vector<std::set<uint32_t>> everybody_names(uint32_t rank) const {
    std::vector<std::set<uint32_t>> result(ranks_->count(), {rank});
    result[rank].clear();
    return result;
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<Ranks> ranks_;
};

TEST_P(Network, ThatIsGoodGivesTheResultsOfTheSerialReference) { expect_all_well(30); }

TEST_P(Network, ThatDropsFramesGivesTheSameResults) {
  Harm harm;
  harm.drop = 0.005;
  lab_->set_all(harm);
  expect_all_well(12);
  EXPECT_GT(lab_->passed(), 100u);
}

TEST_P(Network, ThatDelaysFramesGivesTheSameResults) {
  Harm harm;
  harm.delay = std::chrono::milliseconds(5);
  lab_->set_all(harm);
  expect_all_well(6);
}

TEST_P(Network, ThatIsCutIsNamedOnBothSidesAndWorksAgainWhenHealed) {
  const uint32_t cut = lab_->hosts() - 1;
  Expectations expected = expectations();
  expected.failing = Expectations::Failing{0, on_other_side(cut)};
  expect_failure_and_recovery(
      expected, ranks_->all(), ranks_->all(),
      [&] {
        for (uint32_t host = 0; host < cut; ++host) {
          lab_->set(host, cut, {true, 0, {}});
          lab_->set(cut, host, {true, 0, {}});
        }
      },
      [&] { lab_->heal(); });
}

TEST_P(Network, ThatIsCutInOneDirectionIsNoticedByAll) {
  const uint32_t cut = lab_->hosts() - 1;
  Expectations expected = expectations();
  expected.failing = Expectations::Failing{0, on_other_side(cut)};
  expect_failure_and_recovery(
      expected, ranks_->all(), ranks_->all(),
      [&] {
        for (uint32_t host = 0; host < cut; ++host) lab_->set(host, cut, {true, 0, {}});
      },
      [&] { lab_->heal(); });
}

TEST_P(Network, SaysWhoWasKilledAndTheSurvivorsGoOn) {
  const uint32_t victim = ranks_->count() - 1;
  Expectations expected = expectations();
  expected.failing = Expectations::Failing{0, everybody_names(victim)};
  expected.gone = {victim};
  const auto survivors = without(ranks_->all(), victim);
  expect_failure_and_recovery(
      expected, survivors, survivors, [&] { (*ranks_)[victim].signal(SIGKILL); }, [] {});
}

TEST_P(Network, TakesARankBackThatWasKilledAndStartedAgain) {
  const uint32_t victim = 1;
  Expectations expected = expectations();
  expected.failing = Expectations::Failing{0, everybody_names(victim)};
  expected.gone = {victim};
  expect_failure_and_recovery(
      expected, without(ranks_->all(), victim), ranks_->all(),
      [&] { (*ranks_)[victim].signal(SIGKILL); }, [&] { ranks_->restart(victim); });
}

TEST_P(Network, SaysWhoWasStoppedAndTakesItBackWhenItGoesOn) {
  const uint32_t victim = ranks_->count() - 1;
  Expectations expected = expectations();
  expected.failing = Expectations::Failing{0, everybody_names(victim)};
  // Its own operation lasts as long as it is stopped.
  expected.gone = {victim};
  const auto others = without(ranks_->all(), victim);
  expect_failure_and_recovery(
      expected, others, ranks_->all(), [&] { (*ranks_)[victim].signal(SIGSTOP); },
      [&] {
        (*ranks_)[victim].signal(SIGCONT);
        ranks_->finish({victim});
        ranks_->leave({victim});
      });
}

INSTANTIATE_TEST_SUITE_P(Of, Network, testing::Values(Shape{2, 2}, Shape{4, 2}),
                         [](const auto& info) {
                           return std::to_string(info.param.hosts) + "HostsOf" +
                                  std::to_string(info.param.of_host) + "Ranks";
                         });

// nccom-test from the outside: hosts are namespaces, and `ip netns exec` what ssh is elsewhere.
class NccomTest : public testing::TestWithParam<Shape> {};

TEST_P(NccomTest, RunsEveryOperationWithChecksAcrossHosts) {
  if (!Lab::permitted()) GTEST_SKIP() << "this user may not make network namespaces; run as root";
  const Lab lab(GetParam().hosts);
  ASSERT_TRUE(lab.ready()) << lab.failure();
  const Folder folder;
  const std::string json = folder.path("report.json");
  std::string command = test::built("bin/nccom-test");
  for (const char* operation :
       {"allr", "allg", "redsct", "alltoall", "bcast", "reduce", "gather", "scatter", "sendrecv",
        "permute", "barrier", "allgv", "reduce_scatterv", "alltoallv"}) {
    command += " " + std::string(operation);
  }
  command += " -r " + std::to_string(lab.hosts() * GetParam().of_host) + " -N " +
             std::to_string(lab.hosts()) + " -b 8 -e 64K -f 90 -n 2 -w 1 -d fp32 -c --seed 3 " +
             "--timeout 10000 --launch-command 'ip netns exec {host}' --report-to-json-file " +
             json + " --root-comm-id " + lab.address(0) + ":45200 -s";
  for (uint32_t host = 0; host < lab.hosts(); ++host) command += " " + lab.name(host);
  const test::Run run = test::shell(command, {}, std::chrono::seconds(120));
  EXPECT_EQ(run.ending, 0) << run.output;
  const std::string report = test::read_file(json);
  const auto rows_of = [&](uint32_t ranks) {
    const std::string checked = "\"checked_ranks\": " + std::to_string(ranks) + ",";
    size_t rows = 0;
    for (size_t at = report.find(checked); at != std::string::npos;
         at = report.find(checked, at + 1)) {
      ++rows;
    }
    return rows;
  };
  // Every rank that has a result compared it, for each of three sizes: one rank of reduce, gather
  // and sendrecv, all ranks of the others. A barrier has no result.
  EXPECT_EQ(rows_of(lab.hosts() * GetParam().of_host), 10u * 3) << report;
  EXPECT_EQ(rows_of(1), 3u * 3) << report;
}

TEST_P(NccomTest, RunsAlgorithmsThatNeedSeveralHosts) {
  if (!Lab::permitted()) GTEST_SKIP() << "this user may not make network namespaces; run as root";
  const Lab lab(GetParam().hosts);
  ASSERT_TRUE(lab.ready()) << lab.failure();
  for (const auto& [operation, algorithm] : {std::pair{"allr", "two_d_ring"},
                                             {"allr", "pipelined_two_d_ring"},
                                             {"allr", "hier"},
                                             {"allr", "node_chain"},
                                             {"allr", "node_leaders"},
                                             {"allg", "two_d_ring"},
                                             {"allg", "node_leaders"},
                                             {"redsct", "hier"},
                                             {"bcast", "hier"},
                                             {"alltoall", "two_level"}}) {
    std::string command = test::built("bin/nccom-test ") + operation + " --algorithm " + algorithm +
                          " -r " + std::to_string(lab.hosts() * GetParam().of_host) +
                          " -b 100K -e 100K -n 2 -w 1 -d int32 -c --seed 3 --timeout 10000 "
                          "--launch-command 'ip netns exec {host}' --root-comm-id " +
                          lab.address(0) + ":45201 -s";
    for (uint32_t host = 0; host < lab.hosts(); ++host) command += " " + lab.name(host);
    const test::Run run = test::shell(command);
    EXPECT_EQ(run.ending, 0) << operation << " by " << algorithm << ": " << run.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, NccomTest, testing::Values(Shape{2, 2}, Shape{4, 2}),
                         [](const auto& info) {
                           return std::to_string(info.param.hosts) + "Hosts";
                         });

}  // namespace
}  // namespace neuron::network
