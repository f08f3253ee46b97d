// SPDX-License-Identifier: Apache-2.0
// A process that is killed while others wait for it on the device: they say so at once, not when
// their executions' time is over.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace neuron::matrix {
namespace {

using Clock = std::chrono::steady_clock;

std::string contents(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The child of `launcher` whose arguments hold `words`, one after the other; 0: none.
pid_t child_with(pid_t launcher, const std::string& words) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0) continue;
    const std::string status = contents(entry.path() / "status");
    if (status.find("PPid:\t" + std::to_string(launcher) + "\n") == std::string::npos) continue;
    if (contents(entry.path() / "cmdline").find(words) != std::string::npos) return pid;
  }
  return 0;
}

// How often that thread of the process has waited which has done so most often.
long waits_of(pid_t pid) {
  long most = 0;
  std::error_code gone;
  std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", gone);
  for (; !gone && tasks != std::filesystem::directory_iterator(); tasks.increment(gone)) {
    const std::string status = contents(tasks->path() / "status");
    const size_t at = status.find("\nvoluntary_ctxt_switches:");
    if (at != std::string::npos) most = std::max(most, std::atol(status.c_str() + at + 25));
  }
  return most;
}

TEST(LostRank, IsNamedByThoseThatWaitForItLongBeforeTheirExecutionsEnd) {
  std::string folder = (std::filesystem::temp_directory_path() / "lost-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string log = folder + "/log";
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = own.parent_path().parent_path() / "bin" / "nccom-test";
  const pid_t launcher = fork();
  if (launcher == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setenv("NEURON_EMULATOR", "trn1.32xlarge", 1);
    setenv("NEURON_RT_EXEC_TIMEOUT", "60", 1);
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    execl(program.c_str(), "nccom-test", "--backend", "device", "--processes", "-r", "3", "-n",
          "1000000", "-w", "0", "-b", "64K", "-e", "64K", "-d", "fp32", "allr", nullptr);
    _exit(127);
  }
  // Joining waits some hundred times; then it is among its million of executions.
  const auto end = Clock::now() + std::chrono::seconds(40);
  pid_t victim = 0;
  while (Clock::now() < end && (victim == 0 || waits_of(victim) < 1500)) {
    victim = child_with(launcher, std::string("--worker\0001,1", 12));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NE(victim, 0);
  const auto killed = Clock::now();
  if (victim != 0) kill(victim, SIGKILL);
  int status = 0;
  while (waitpid(launcher, &status, WNOHANG) == 0 &&
         Clock::now() < killed + std::chrono::seconds(30))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto took = Clock::now() - killed;
  kill(launcher, SIGKILL);
  const std::string text = contents(log);
  EXPECT_LT(took, std::chrono::seconds(10)) << text;
  EXPECT_THAT(text, testing::HasSubstr("rank 1: its process (ranks 1-1) was ended by signal 9"));
  EXPECT_THAT(text, testing::HasSubstr("cannot finish on device"));
  EXPECT_THAT(text, testing::HasSubstr("rank 1 (host"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace neuron::matrix
