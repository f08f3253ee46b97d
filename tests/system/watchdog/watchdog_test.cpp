// SPDX-License-Identifier: Apache-2.0
// What nccom-test makes of runs that take long, of processes that stand still, and of files that it
// is to compare with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>

#include "driver/base/deadline.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace neuron::watchdog {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr seconds kLong{60};

test::Words words_of(const test::Words& where, int operations) {
  test::Words words = {test::built("bin/nccom-test"), "--timeout", "2000", "-w", "0", "-n",
                       std::to_string(operations)};
  words.insert(words.end(), where.begin(), where.end());
  words.push_back("allr");
  return words;
}

// The limit of an operation is two seconds, and no rank may fail to get on for four.
void expect_longer_than_its_limit(const test::Words& where, const test::Environment& environment) {
  constexpr milliseconds kEnough{6000};
  int operations = 100;
  for (;;) {
    const auto begun = Clock::now();
    const test::Run run = test::run(words_of(where, operations), environment, kLong);
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    ASSERT_EQ(run.ending, 0) << operations << " operations: " << run.output;
    if (took > kEnough) return;
    // A run of few operations is mostly its beginning.
    operations *= took < kEnough / 4 ? 4 : 2;
    ASSERT_LE(operations, 1'000'000) << "no run took long enough to show anything";
  }
}

TEST(Watchdog, LetsAMeasurementOfManyOperationsTakeLongerThanTheLimitOfOne) {
  expect_longer_than_its_limit({"--backend", "host", "-r", "2", "-b", "4M", "-e", "4M"}, {});
}

TEST(Watchdog, LetsAMeasurementInOtherProcessesTakeLongerThanTheLimitOfOneOperation) {
  expect_longer_than_its_limit(
      {"--backend", "host", "--processes", "-r", "2", "-b", "4M", "-e", "4M"}, {});
}

TEST(Watchdog, LetsAMeasurementOnTheNetworkTakeLongerThanTheLimitOfOneOperation) {
  expect_longer_than_its_limit({"--backend", "network", "-r", "2", "-b", "4M", "-e", "4M"}, {});
}

TEST(Watchdog, LetsAMeasurementOnADeviceTakeLongerThanTheLimitOfOneOperation) {
  expect_longer_than_its_limit(
      {"--backend", "device", "-r", "2", "-b", "64K", "-e", "64K", "-d", "fp32"},
      {{"NEURON_EMULATOR", "trn1.2xlarge"}, {"NEURON_RT_LOG_LEVEL", "QUIET"}});
}

// The child of `launcher` whose arguments hold `words`, one after the other; 0: none.
pid_t child_with(pid_t launcher, const std::string& words) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0) continue;
    const std::string status = test::read_file(entry.path() / "status");
    if (status.find("PPid:\t" + std::to_string(launcher) + "\n") == std::string::npos) continue;
    if (test::read_file(entry.path() / "cmdline").find(words) != std::string::npos) return pid;
  }
  return 0;
}

TEST(Watchdog, OfAProcessThatStandsStillLeavesDumpsThatPointAtIt) {
  const test::Folder folder;
  const std::string dumps = folder.path("dumps");  // nobody has made it
  test::Process launcher({test::built("bin/nccom-test"),
                          "--backend",
                          "host",
                          "-r",
                          "4",
                          "-N",
                          "2",
                          "--hosts",
                          "a",
                          "b",
                          "--launch-command",
                          "env HOST={host}",
                          "--timeout",
                          "3000",
                          "-n",
                          "1000000",
                          "-w",
                          "0",
                          "-b",
                          "1M",
                          "-e",
                          "1M",
                          "--root-comm-id",
                          "127.0.0.1:" + std::to_string(test::free_port()),
                          "allr"},
                         {{"CCOM_DUMP_PATH", dumps}});
  pid_t victim = 0;
  test::eventually(
      [&] {
        return (victim = child_with(launcher.pid(), std::string("--worker\0002,2", 12))) != 0;
      },
      seconds(20), milliseconds(20));
  ASSERT_NE(victim, 0);
  // When the first progress is told, all are among their operations.
  const auto said = launcher.until('\n', base::Deadline::after(seconds(30)));
  EXPECT_THAT(said.value_or("nothing"), HasSubstr("0 of 1 sizes are measured"));
  kill(victim, SIGSTOP);
  launcher.wait(seconds(30));
  launcher.kill();
  kill(victim, SIGKILL);
  test::Words words = {test::built("bin/nccom-postmortem")};
  for (const auto& entry : std::filesystem::directory_iterator(dumps)) {
    words.push_back(entry.path());
  }
  EXPECT_EQ(words.size(), 3u) << "the two ranks that live have a dump each";
  const test::Run verdict = test::run(words);
  const std::string sentence = verdict.output.substr(0, verdict.output.find('\n'));
  EXPECT_THAT(sentence, Not(HasSubstr("circle"))) << verdict.output;
  EXPECT_THAT(sentence, HasSubstr("wrote no dump")) << verdict.output;
  EXPECT_THAT(sentence, testing::AnyOf(HasSubstr("wrote no dump in all: ranks 2, 3"),
                                       testing::StartsWith("ranks 2, 3")))
      << verdict.output;
}

TEST(Comparison, WithAFileThatIsNoneEndsBeforeAnythingIsMeasured) {
  const test::Folder folder;
  folder.write("broken.json", std::string_view("{"));
  const std::string report = folder.path("report.json");
  for (const std::string name : {"missing.json", "broken.json"}) {
    const test::Run run =
        test::run({test::built("bin/nccom-test"), "--backend", "host", "-r", "2", "-b", "8", "-e",
                   "8", "-n", "1", "--json", report, "--compare", folder.path(name), "allr"});
    EXPECT_EQ(run.ending, 1);
    EXPECT_THAT(run.output, AllOf(HasSubstr(name), Not(HasSubstr("busbw")))) << run.output;
    EXPECT_FALSE(std::filesystem::exists(report)) << "it was measured";
  }
}

}  // namespace
}  // namespace neuron::watchdog
