// SPDX-License-Identifier: Apache-2.0
// A process that is killed while others wait for it on the device: they say so at once, not when
// their executions' time is over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>

#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::matrix {
namespace {

using test::Clock;
using test::read_file;

// The child of `launcher` whose arguments hold `words`, one after the other; 0: none.
pid_t child_with(pid_t launcher, const std::string& words) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0) continue;
    const std::string status = read_file(entry.path() / "status");
    if (status.find("PPid:\t" + std::to_string(launcher) + "\n") == std::string::npos) continue;
    if (read_file(entry.path() / "cmdline").find(words) != std::string::npos) return pid;
  }
  return 0;
}

// How often that thread of the process has waited which has done so most often.
long waits_of(pid_t pid) {
  long most = 0;
  std::error_code gone;
  std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", gone);
  for (; !gone && tasks != std::filesystem::directory_iterator(); tasks.increment(gone)) {
    const std::string status = read_file(tasks->path() / "status");
    const size_t at = status.find("\nvoluntary_ctxt_switches:");
    if (at != std::string::npos) most = std::max(most, std::atol(status.c_str() + at + 25));
  }
  return most;
}

TEST(LostRank, IsNamedByThoseThatWaitForItLongBeforeTheirExecutionsEnd) {
  test::Process launcher(
      {test::built("bin/nccom-test"), "--backend", "device", "--processes", "-r", "3", "-n",
       "1000000", "-w", "0", "-b", "64K", "-e", "64K", "-d", "fp32", "allr"},
      {{"NEURON_EMULATOR", "trn1.32xlarge"},
       {"NEURON_RT_EXEC_TIMEOUT", "60"},
       {"NEURON_RT_LOG_LEVEL", "QUIET"}});
  // Joining waits some hundred times; then it is among its million of executions.
  pid_t victim = 0;
  test::eventually(
      [&] {
        victim = child_with(launcher.pid(), std::string("--worker\0001,1", 12));
        return victim != 0 && waits_of(victim) >= 1500;
      },
      std::chrono::seconds(40), std::chrono::milliseconds(20));
  EXPECT_NE(victim, 0);
  const auto killed = Clock::now();
  if (victim != 0) kill(victim, SIGKILL);
  launcher.wait(std::chrono::seconds(30));
  const auto took = Clock::now() - killed;
  launcher.kill();
  const std::string text = launcher.rest();
  EXPECT_LT(took, std::chrono::seconds(10)) << text;
  EXPECT_THAT(text, testing::HasSubstr("rank 1: its process (ranks 1-1) was ended by signal 9"));
  EXPECT_THAT(text, testing::HasSubstr("cannot finish on device"));
  EXPECT_THAT(text, testing::HasSubstr("rank 1 (host"));
}

}  // namespace
}  // namespace neuron::matrix
