// SPDX-License-Identifier: Apache-2.0
// Collectives of devices of two instances over a network that drops, delays and blocks frames, and
// while ranks and daemons are killed and stopped. NEURON_TEST_INSTANCE_RANKS: ranks of an instance,
// which the name of each test tells. NEURON_TEST_NETWORK=all: each of them, more than a minute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <ios>
#include <iterator>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "driver/base/backoff.h"
#include "tests/support/eventually.h"
#include "tests/system/network/instances.h"

namespace neuron::network {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Clock;
using test::Words;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kMostRanks = 32;

// 0: the variable says no number of ranks that an instance can have.
uint32_t ranks_of_an_instance() {
  constexpr uint32_t kFewRanks = 4;
  const char* given = std::getenv("NEURON_TEST_INSTANCE_RANKS");
  if (given == nullptr) return kFewRanks;
  const std::string_view text = given;
  uint32_t ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool good = error == std::errc() && end == text.data() + text.size();
  return good && ranks <= kMostRanks ? ranks : 0;
}

std::string name_of_size() {
  return "2InstancesOf" + std::to_string(ranks_of_an_instance()) + "Ranks";
}

// A host of two processors needs so many times as long for many ranks as for few.
int busy() { return ranks_of_an_instance() > 8 ? 10 : 1; }

constexpr const char* kOperations[] = {
    "allr",    "allg",     "redsct",  "alltoall", "broadcast", "reduce",          "gather",
    "scatter", "sendrecv", "permute", "barrier",  "allgv",     "reduce_scatterv", "alltoallv"};

class TwoInstances : public testing::Test {
 protected:
  void SetUp() override {
    if (!Lab::permitted()) {
      GTEST_SKIP() << "this user may not make network namespaces; run as root";
    }
    ASSERT_NE(ranks_of_an_instance(), 0U)
        << "NEURON_TEST_INSTANCE_RANKS is no number from 1 to " << kMostRanks;
    instances_ = std::make_unique<Instances>(ranks_of_an_instance());
    ASSERT_EQ(instances_->failure(), "");
  }

  // The results of all operations that `run` compared: each of them on every rank that has one,
  // which is the root alone for reduce and gather, and the target for sendrecv.
  std::string all_compared(uint32_t sizes, uint32_t executions) const {
    const uint32_t results = sizes * executions * (10 * instances_->ranks() + 3);
    return "backend device; " + std::to_string(results) + " results compared, all right";
  }

  std::unique_ptr<Instances> instances_;
};

// Whether a test is one of those for which an ordinary run has time.
enum class When : uint8_t { kAlways, kAll };

// Those of an ordinary run, or all. `Case` has a `when`.
template <class Case, size_t kCount>
std::vector<Case> chosen(const Case (&all)[kCount]) {
  const char* given = std::getenv("NEURON_TEST_NETWORK");
  std::vector<Case> cases;
  std::copy_if(std::begin(all), std::end(all), std::back_inserter(cases), [&](const Case& one) {
    return one.when == When::kAlways || (given != nullptr && std::string_view(given) == "all");
  });
  return cases;
}

// A network, what libccom sends over it, a type of numbers, and from which size on.
struct Way {
  When when;
  const char* network;
  Harm harm;
  const char* provider;  // as CCOM_PROVIDERS; nothing: libccom's own choice, which is tcp, too
  const char* type;
  const char* least;
};

constexpr Harm kDrops{.blocked = false, .drop = 0.005, .delay = {}};
constexpr Harm kDelays{.blocked = false, .drop = 0, .delay = milliseconds(5)};

const Way kWays[] = {
    {When::kAlways, "Good", {}, "", "bf16", "64"},
    {When::kAlways, "Good", {}, "rough+tcp", "fp32", "64K"},
    {When::kAlways, "Dropping", kDrops, "", "fp32", "64K"},
    {When::kAlways, "Delaying", kDelays, "", "bf16", "64K"},
    {When::kAll, "Good", {}, "", "fp32", "64"},
    {When::kAll, "Good", {}, "tcp", "bf16", "64"},
    {When::kAll, "Good", {}, "tcp", "fp32", "64"},
    {When::kAll, "Good", {}, "rough+tcp", "bf16", "64"},
    {When::kAll, "Dropping", kDrops, "rough+tcp", "fp32", "64"},
    {When::kAll, "Dropping", kDrops, "tcp", "bf16", "64"},
    {When::kAll, "Delaying", kDelays, "rough+tcp", "bf16", "64"},
    {When::kAll, "Delaying", kDelays, "tcp", "fp32", "64"},
};

std::string name_of(const std::string& what, const std::string& provider) {
  std::string name =
      name_of_size() + "_" + what + "_Over_" + (provider.empty() ? "stream" : provider);
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
}

class DevicesOverANetwork : public TwoInstances, public testing::WithParamInterface<Way> {};

TEST_P(DevicesOverANetwork, GiveCheckedResultsOfEveryOperation) {
  const Way& way = GetParam();
  instances_->lab().set_all(way.harm);
  Words words = {"-b", way.least, "-e", "64K", "-f", "1024", "-w", "0", "-n", "2", "-d", way.type};
  words.insert(words.end(), {"--check", "random", "--timeout", std::to_string(20'000 * busy())});
  words.insert(words.end(), std::begin(kOperations), std::end(kOperations));
  // Each rank of libfabric's tcp makes 16 MiB of receive buffers, and clears them, whenever it
  // loads a program: 64 ranks took 71 s on one host, and more than 600 s on another of the same
  // model.
  const int slow = way.provider == std::string_view("tcp") ? 2 : 1;
  const test::Run run =
      test::run(instances_->nccom_test(words), instances_->environment(way.provider),
                seconds(60 * busy() * slow));
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr(all_compared(way.least == std::string_view("64K") ? 1 : 2, 2)));
  EXPECT_GT(instances_->lab().passed(), 100U) << "frames that the switch passed on";
  if (way.harm.drop != 0) {
    EXPECT_GT(instances_->lab().dropped(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, DevicesOverANetwork, testing::ValuesIn(chosen(kWays)),
                         [](const auto& info) {
                           const Way& way = info.param;
                           return name_of(std::string(way.network) + "_" + way.type, way.provider);
                         });

// Without this, what the tests above say of providers would mean nothing.
TEST_F(TwoInstances, UseNoOtherProviderThanTheNamedOne) {
  const auto environment = instances_->environment("");
  const Words few = {"-b", "64", "-e", "64", "-n", "1", "-w", "0", "allr"};
  Words words = {"--providers", "pigeons"};
  words.insert(words.end(), few.begin(), few.end());
  const test::Run run = test::run(instances_->nccom_test(words), environment);
  EXPECT_NE(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("pigeons: not here"));
}

struct Fault {
  enum class Kind : uint8_t { kPartition, kKilled, kStopped, kDaemon } kind;
  uint32_t instance;  // where it happens; of a partition: from which no frame arrives
  const char* name;
};

constexpr Fault kFaults[] = {
    {Fault::Kind::kPartition, 0, "NoFrameFromTheFirst"},
    {Fault::Kind::kKilled, 1, "KilledRankOfTheSecond"},
    {Fault::Kind::kStopped, 0, "StoppedRankOfTheFirst"},
    {Fault::Kind::kDaemon, 1, "KilledDaemonOfTheSecond"},
    {Fault::Kind::kPartition, 1, "NoFrameFromTheSecond"},
    {Fault::Kind::kKilled, 0, "KilledRankOfTheFirst"},
    {Fault::Kind::kStopped, 1, "StoppedRankOfTheSecond"},
    {Fault::Kind::kDaemon, 0, "KilledDaemonOfTheFirst"},
};

class InstancesInTrouble : public TwoInstances {
 protected:
  // Seconds that an execution may take, and how much later than that all ranks have ended.
  static int deadline() { return 4 * busy(); }
  static int grace() { return 3 * busy(); }

  uint32_t each() const { return instances_->ranks() / Instances::kCount; }
  // The last rank of its instance, which is killed or stopped.
  uint32_t victim(const Fault& fault) const { return (fault.instance + 1) * each() - 1; }

  // `process`: the victim's.
  void harm(const Fault& fault, pid_t process) {
    switch (fault.kind) {
      case Fault::Kind::kPartition:
        return instances_->lab().set(fault.instance, 1 - fault.instance, {.blocked = true});
      case Fault::Kind::kKilled:
        ::kill(process, SIGKILL);
        return;
      case Fault::Kind::kStopped:
        ::kill(process, SIGSTOP);
        return;
      case Fault::Kind::kDaemon:
        return instances_->daemon(fault.instance).process().signal(SIGKILL);
    }
  }

  // When no process of the old job is left.
  void repair(const Fault& fault) {
    instances_->lab().heal();
    if (fault.kind == Fault::Kind::kDaemon) instances_->daemon(fault.instance).restart();
    EXPECT_TRUE(test::eventually([this] { return instances_->are_free(); }));
  }

  // Who failed, as seen from an instance.
  testing::Matcher<std::string> culprit(const Fault& fault, uint32_t instance) const {
    if (fault.kind == Fault::Kind::kKilled || fault.kind == Fault::Kind::kStopped) {
      return names_one_of(victim(fault), 1);
    }
    if (fault.kind == Fault::Kind::kDaemon && instance == fault.instance) {
      return AnyOf(ContainsRegex("device [0-9]+"), HasSubstr("neuron-emulatord"));
    }
    return names_one_of((1 - instance) * each(), each());
  }

 private:
  static testing::Matcher<std::string> names_one_of(uint32_t first, uint32_t count) {
    std::string ranks;
    for (uint32_t rank = first; rank < first + count; ++rank) {
      ranks += (ranks.empty() ? "" : "|") + std::to_string(rank);
    }
    return ContainsRegex("ranks? ([0-9]+(,| and| to) )*(" + ranks + ")([^0-9]|$)");
  }
};

struct Trouble {
  When when;
  const char* provider;
  const Fault& fault;
};

const Trouble kTroubles[] = {
    {When::kAlways, "", kFaults[1]},
    {When::kAlways, "", kFaults[2]},
    {When::kAlways, "", kFaults[3]},
    {When::kAlways, "", kFaults[4]},
    {When::kAlways, "rough+tcp", kFaults[0]},
    {When::kAll, "", kFaults[0]},
    {When::kAll, "", kFaults[5]},
    {When::kAll, "", kFaults[6]},
    {When::kAll, "", kFaults[7]},
    {When::kAll, "rough+tcp", kFaults[1]},
    {When::kAll, "rough+tcp", kFaults[2]},
    {When::kAll, "rough+tcp", kFaults[3]},
};

class DevicesInTrouble : public InstancesInTrouble, public testing::WithParamInterface<Trouble> {
 protected:
  std::unique_ptr<DeviceJob> job(uint32_t port) {
    test::Environment environment = instances_->environment(GetParam().provider);
    environment["NEURON_RT_EXEC_TIMEOUT"] = std::to_string(deadline());
    return std::make_unique<DeviceJob>(*instances_, port, environment);
  }

  static void expect_to_run(DeviceJob& job) {
    ASSERT_EQ(job.lines(), job.all_say("ready"));
    ASSERT_EQ(job.ask("load good"), job.all_say("ready"));
    ASSERT_EQ(job.ask("run"), job.all_say(job.sum()));
  }

  static const Fault& fault() { return GetParam().fault; }

  bool tells(uint32_t rank) const {
    return rank != victim(fault()) ||
           (fault().kind != Fault::Kind::kKilled && fault().kind != Fault::Kind::kStopped);
  }

  // What a rank says behind its last good result.
  static std::string first_failure(DeviceJob& job, uint32_t rank, int runs) {
    for (int run = 0; run < runs; ++run) {
      const std::string line = job[rank].line();
      if (line != job.sum()) return line;
    }
    return "(no failure)";
  }
};

TEST_P(DevicesInTrouble, NameWhoFailedAndANewJobWorks) {
  constexpr int kRuns = 500, kBefore = 5;
  auto first = job(45400);
  expect_to_run(*first);
  for (int run = 0; run < kRuns; ++run) first->say("run");
  for (int run = 0; run < kBefore; ++run) ASSERT_EQ((*first)[0].line(), first->sum());
  const auto begin = Clock::now();
  harm(fault(), (*first)[victim(fault())].pid());
  for (uint32_t rank = 0; rank < first->size(); ++rank) {
    if (!tells(rank)) continue;
    const std::string told = first_failure(*first, rank, kRuns);
    EXPECT_THAT(told, AllOf(HasSubstr("failed "), culprit(fault(), instances_->instance_of(rank))))
        << "rank " << rank;
  }
  EXPECT_LT(Clock::now() - begin, seconds(deadline() + grace()));
  first.reset();
  repair(fault());
  auto second = job(45401);
  expect_to_run(*second);
}

INSTANTIATE_TEST_SUITE_P(Of, DevicesInTrouble, testing::ValuesIn(chosen(kTroubles)),
                         [](const auto& info) {
                           const Trouble& trouble = info.param;
                           return name_of(trouble.fault.name, trouble.provider);
                         });

// How many faults; each has a number, from which everything else follows.
uint32_t faults_to_try() {
  const char* given = std::getenv("NEURON_TEST_INSTANCE_FAULTS");
  return given == nullptr ? 2 : static_cast<uint32_t>(std::max(1, std::atoi(given)));
}

class EveryOperationInTrouble : public InstancesInTrouble,
                                public testing::WithParamInterface<uint32_t> {
 protected:
  // The process of nccom-test that is this rank; 0: there is none.
  pid_t process_of(uint32_t rank, pid_t launcher) const {
    const std::string words = std::string("--worker") + '\0' + std::to_string(rank) + ",1" + '\0';
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
      const pid_t process = std::atoi(entry.path().filename().c_str());
      if (process <= 0) continue;
      try {
        const std::string status = test::read_file(entry.path() / "status");
        if (status.find("PPid:\t" + std::to_string(launcher) + "\n") == std::string::npos) continue;
        if (test::read_file(entry.path() / "cmdline").find(words) != std::string::npos) {
          return process;
        }
      } catch (const std::ios_base::failure&) {  // it has just ended
      }
    }
    return 0;
  }
};

// A job of all operations, of which the fault meets any.
TEST_P(EveryOperationInTrouble, EndsWithTheNameOfWhoFailedAndWithoutAWrongResult) {
  std::minstd_rand random(GetParam() + 1);
  const Fault& fault = kFaults[GetParam() % std::size(kFaults)];
  const std::string provider = GetParam() % 3 == 0 ? "rough+tcp" : "";
  test::Environment environment = instances_->environment(provider);
  environment["NEURON_RT_EXEC_TIMEOUT"] = std::to_string(deadline());
  environment["NEURON_OPEN_COLLECTIVES_TIMEOUT"] = std::to_string(deadline());
  Words words = {"-b", "2K", "-e", "2K", "-w", "0", "-n", "100", "--check", "random"};
  words.insert(words.end(), {"-d", random() % 2 == 0 ? "bf16" : "fp32"});
  words.insert(words.end(), {"--timeout", std::to_string(20'000 * busy())});
  // Each of them has its turn to be the first.
  std::vector<std::string> operations(std::begin(kOperations), std::end(kOperations));
  std::rotate(operations.begin(), operations.begin() + random() % operations.size(),
              operations.end());
  words.insert(words.end(), operations.begin(), operations.end());
  SCOPED_TRACE(operations.front());
  test::Process launcher(instances_->nccom_test(words), environment);
  pid_t process = 0;
  ASSERT_TRUE(
      test::eventually([&] { return (process = process_of(victim(fault), launcher.pid())) != 0; }));
  // Its ranks load their programs, or execute them.
  const uint64_t before = instances_->lab().passed();
  ASSERT_TRUE(test::eventually(
      [&] { return instances_->lab().passed() - before > 20U * instances_->ranks(); }));
  base::sleep_for(milliseconds(random() % (1500U * static_cast<unsigned>(busy()))));
  harm(fault, process);
  const std::string told = launcher.rest(seconds(60 * busy()));
  EXPECT_EQ(launcher.wait(), 1) << told;
  EXPECT_THAT(told, AnyOf(culprit(fault, 0), culprit(fault, 1)));
  EXPECT_THAT(told, Not(HasSubstr("output element"))) << "a result that is wrong";
  repair(fault);
  // With the limits of an ordinary job: those above are short, so that the fault is named soon.
  const test::Run after =
      test::run(instances_->nccom_test({"-b", "2K", "-e", "2K", "-w", "0", "-n", "1", "--check",
                                        "random", "-d", "fp32", operations.front()}),
                instances_->environment(provider), seconds(60 * busy()));
  EXPECT_EQ(after.ending, 0) << after.output;
}

INSTANTIATE_TEST_SUITE_P(Of, EveryOperationInTrouble, testing::Range(0U, faults_to_try()),
                         [](const auto& info) {
                           return name_of_size() + "_Fault" + std::to_string(info.param);
                         });

}  // namespace
}  // namespace neuron::network
