// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "tests/support/child.h"

namespace neuron::runtime {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Log : public testing::Test {
 protected:
  void SetUp() override { path_ = testing::TempDir() + "log_test_" + std::to_string(getpid()); }
  void TearDown() override {
    for (const char* name : {"NEURON_RT_LOG_LEVEL", "NEURON_RT_LOG_LEVEL_TDRV",
                             "NEURON_RT_LOG_LOCATION", "NEURON_RT_LOG_LOCATION_NRT",
                             "NEURON_RT_LOG_LOCATION_TDRV", "NEURON_OPEN_PROGRAM_TELLS"}) {
      unsetenv(name);
    }
    (void)configure_log();
    set_system_log("/dev/log");
    unlink(path_.c_str());
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  std::string path_;
};

TEST_F(Log, WritesOneLineWithTimeProcessThreadLevelAndComponent) {
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  errno = 42;
  log_error(LogComponent::kNrt, "device {} is\nlost {}", 3, std::string("again"));
  EXPECT_EQ(errno, 42);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_THAT(lines()[0], testing::MatchesRegex(
                              "20[0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9:]+\\.[0-9]+ [0-9]+:[0-9]+ "
                              "ERROR NRT device 3 is.x0alost again"));
  EXPECT_THAT(lines()[0], HasSubstr(std::to_string(getpid()) + ":"));
}

TEST_F(Log, WarnsOnceOnStderrOfSettingsThatItCannotRead) {
  setenv("NEURON_RT_LOG_LEVEL", "LOUD", 1);
  setenv("NEURON_RT_LOG_LOCATION", "nowhere", 1);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(configure_log());
  EXPECT_FALSE(configure_log());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("WARN NRT NEURON_RT_LOG_LEVEL is \"LOUD\""));
  EXPECT_THAT(text, HasSubstr("NEURON_RT_LOG_LOCATION is \"nowhere\""));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
  setenv("NEURON_RT_LOG_LOCATION", "printer", 1);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(configure_log());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("printer"));
}

TEST_F(Log, FollowsTheLevelOfTheComponent) {
  setenv("NEURON_RT_LOG_LEVEL_TDRV", "info", 1);
  setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  setenv("NEURON_RT_LOG_LOCATION_TDRV", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  log_error(LogComponent::kNrt, "hidden");
  log_debug(LogComponent::kTdrv, "hidden");
  log_info(LogComponent::kTdrv, "shown");
  log_warning(LogComponent::kTdrv, "shown too");
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_THAT(lines()[1], HasSubstr("WARN TDRV shown too"));
  EXPECT_FALSE(log_enabled(LogComponent::kNrt, LogLevel::kQuiet));
}

TEST_F(Log, ShowsANoticeUnlessSomebodyHasChosenALevelWithoutWarnings) {
  const auto shown = [](const char* level, const char* of_component) {
    level == nullptr ? unsetenv("NEURON_RT_LOG_LEVEL") : setenv("NEURON_RT_LOG_LEVEL", level, 1);
    of_component == nullptr ? unsetenv("NEURON_RT_LOG_LEVEL_TDRV")
                            : setenv("NEURON_RT_LOG_LEVEL_TDRV", of_component, 1);
    EXPECT_TRUE(configure_log());
    testing::internal::CaptureStderr();
    log_notice(LogComponent::kTdrv, "{} are lost", 3);
    log_warning(LogComponent::kTdrv, "quiet");
    const std::string text = testing::internal::GetCapturedStderr();
    return text.find(" WARN TDRV 3 are lost\n") != std::string::npos;
  };
  EXPECT_TRUE(shown(nullptr, nullptr)) << "by default";
  EXPECT_TRUE(shown("WARN", nullptr));
  EXPECT_TRUE(shown("ERROR", "INFO"));
  EXPECT_FALSE(shown("ERROR", nullptr));
  EXPECT_FALSE(shown("QUIET", nullptr));
  EXPECT_FALSE(shown(nullptr, "ERROR"));
  EXPECT_FALSE(shown("INFO", "QUIET"));
}

TEST_F(Log, LeavesToTheProgramOnlyWhatWouldStandOnTheSameConsole) {
  EXPECT_FALSE(told_by_program(LogComponent::kNrt));
  setenv("NEURON_OPEN_PROGRAM_TELLS", "1", 1);
  ASSERT_TRUE(configure_log());
  EXPECT_TRUE(told_by_program(LogComponent::kNrt));
  EXPECT_TRUE(notices_enabled(LogComponent::kNrt));
  EXPECT_TRUE(log_enabled(LogComponent::kNrt, LogLevel::kError));
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  EXPECT_FALSE(told_by_program(LogComponent::kNrt)) << "the file has all";
  EXPECT_TRUE(told_by_program(LogComponent::kTdrv));
}

TEST_F(Log, ReportsASettingThatItCannotReadAndUsesTheDefault) {
  setenv("NEURON_RT_LOG_LEVEL", "LOUD", 1);
  auto configured = configure_log();
  ASSERT_FALSE(configured);
  EXPECT_THAT(configured.error().sentence,
              HasSubstr("NEURON_RT_LOG_LEVEL is \"LOUD\"; give one of QUIET, ERROR"));
  EXPECT_TRUE(log_enabled(LogComponent::kNrt, LogLevel::kError));
  EXPECT_FALSE(log_enabled(LogComponent::kNrt, LogLevel::kWarn));
  setenv("NEURON_RT_LOG_LEVEL", "WARNING", 1);
  setenv("NEURON_RT_LOG_LOCATION", "printer", 1);
  configured = configure_log();
  ASSERT_FALSE(configured);
  EXPECT_THAT(configured.error().sentence, HasSubstr("give console or syslog"));
  EXPECT_TRUE(log_enabled(LogComponent::kNrt, LogLevel::kWarn));
}

TEST_F(Log, TellsTheTimeInUtcToTheMicrosecond) {
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  timespec before{}, after{};
  clock_gettime(CLOCK_REALTIME, &before);
  log_error(LogComponent::kNrt, "now");
  clock_gettime(CLOCK_REALTIME, &after);
  tm date{};
  long microseconds = 0;
  ASSERT_EQ(std::sscanf(lines()[0].c_str(), "%d-%d-%d %d:%d:%d.%6ld", &date.tm_year, &date.tm_mon,
                        &date.tm_mday, &date.tm_hour, &date.tm_min, &date.tm_sec, &microseconds),
            7);
  date.tm_year -= 1900;
  date.tm_mon -= 1;
  const auto in_microseconds = [](int64_t seconds, int64_t rest) {
    return seconds * 1'000'000 + rest;
  };
  const int64_t told = in_microseconds(timegm(&date), microseconds);
  EXPECT_GE(told, in_microseconds(before.tv_sec, before.tv_nsec / 1000));
  EXPECT_LE(told, in_microseconds(after.tv_sec, after.tv_nsec / 1000));
}

TEST_F(Log, GoesOnInAFileThatItKnowsAndBeginsOneThatWasMovedAway) {
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  ASSERT_TRUE(configure_log());
  log_error(LogComponent::kNrt, "first");
  const auto before = open_files();
  ASSERT_TRUE(configure_log());
  EXPECT_EQ(open_files(), before) << "it is not opened once more";
  log_error(LogComponent::kNrt, "second");
  EXPECT_EQ(lines().size(), 2u);
  const std::string moved = path_ + ".1";
  std::filesystem::rename(path_, moved);
  ASSERT_TRUE(configure_log());
  log_error(LogComponent::kNrt, "third");
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_THAT(lines()[0], HasSubstr("third"));
  // Another file under the old name is another file, too.
  std::filesystem::remove(path_);
  std::ofstream(path_) << "";
  ASSERT_TRUE(configure_log());
  log_error(LogComponent::kNrt, "fourth");
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_THAT(lines()[0], HasSubstr("fourth"));
  std::filesystem::remove(moved);
}

TEST_F(Log, AFileThatCannotBeOpenedIsNamedWithTheReason) {
  setenv("NEURON_RT_LOG_LOCATION_TDRV", "/nowhere/at/all.log", 1);
  const auto configured = configure_log();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().status, NRT_INVALID);
  EXPECT_THAT(configured.error().sentence,
              HasSubstr("NEURON_RT_LOG_LOCATION_TDRV names /nowhere/at/all.log, which cannot be "
                        "opened for writing"));
  EXPECT_THAT(configured.error().sentence, HasSubstr("No such file"));
}

TEST_F(Log, WithoutADaemonForItTheSystemsLogIsTheConsole) {
  set_system_log(path_.c_str());
  setenv("NEURON_RT_LOG_LOCATION", "SYSLOG", 1);
  ASSERT_TRUE(configure_log());
  testing::internal::CaptureStderr();
  log_error(LogComponent::kNrt, "nobody listens");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("ERROR NRT nobody listens\n"));
}

TEST_F(Log, TheSystemsLogGetsEachLineWithItsPriorityAndTheProcess) {
  const base::FileDescriptor daemon(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path_.size(), sizeof(address.sun_path));
  path_.copy(address.sun_path, path_.size());
  ASSERT_EQ(bind(daemon.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  set_system_log(path_.c_str());
  setenv("NEURON_RT_LOG_LOCATION", "syslog", 1);
  ASSERT_TRUE(configure_log());
  testing::internal::CaptureStderr();
  log_error(LogComponent::kNrt, "{} of a core", "an error");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  char text[256] = {};
  ASSERT_GT(recv(daemon.get(), text, sizeof(text) - 1, 0), 0);
  // Facility user (1), severity error (3).
  EXPECT_THAT(text, StartsWith("<11>neuron-rt[" + std::to_string(getpid()) + "]: "));
  EXPECT_THAT(text, EndsWith("ERROR NRT an error of a core"));
}

TEST_F(Log, AComponentHasItsOwnPlaceAndElseThatOfAll) {
  setenv("NEURON_RT_LOG_LOCATION", "console", 1);
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  testing::internal::CaptureStderr();
  log_error(LogComponent::kNrt, "to the file");
  log_error(LogComponent::kNmgr, "to the console");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("ERROR NMGR to the console"));
  EXPECT_EQ(text.find("to the file"), std::string::npos);
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(Log, CutsLongMessagesAndKeepsTheLineEnd) {
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  log_error(LogComponent::kNrt, "{}", std::string(5000, 'x'));
  log_error(LogComponent::kNrt, "next");
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines()[0].size(), 2047u);
}

TEST_F(Log, KeepsLinesOfThreadsAndForkedChildrenWhole) {
  setenv("NEURON_RT_LOG_LOCATION_NRT", path_.c_str(), 1);
  ASSERT_TRUE(configure_log());
  auto write_many = [] {
    for (int i = 0; i < 100; ++i) log_error(LogComponent::kNrt, "{}|end", std::string(100, 'y'));
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(write_many);
  auto child = test::Child::forked([&] {
    write_many();
    return 0;
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(child.wait(), 0);
  const auto all = lines();
  ASSERT_EQ(all.size(), 400u);
  for (const std::string& line : all) ASSERT_THAT(line, testing::EndsWith("yyy|end"));
}

}  // namespace
}  // namespace neuron::runtime
