// SPDX-License-Identifier: Apache-2.0
// Processes that this program starts: what they say, how they end, and that each of them ends.
#include "tools/common/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

namespace neuron::tools {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Stream = ChildProcess::Stream;

Ending shell(const char* script, const Limits& limits, std::vector<std::string>* lines = nullptr) {
  return run_command({"/bin/sh", "-c", script}, {{"WORD", "hello"}}, limits,
                     [&](std::string_view line) {
                       if (lines != nullptr) lines->emplace_back(line);
                     });
}

TEST(ChildProcess, GivesItsLinesAndItsEnd) {
  std::vector<std::string> lines;
  const Ending ending = shell("echo $WORD; echo two; echo wrong >&2; exit 3", {30s}, &lines);
  EXPECT_EQ(ending.how, Ending::How::kExited);
  EXPECT_EQ(ending.code, 3);
  EXPECT_EQ(ending.errors, "wrong\n");
  EXPECT_THAT(lines, ElementsAre("hello", "two"));
}

TEST(ChildProcess, IsToldApartByHowItEnded) {
  EXPECT_EQ(shell("kill -SEGV $$", {30s}).how, Ending::How::kSignalled);
  EXPECT_EQ(run_command({"/nowhere/at/all"}, {}, {30s}, [](std::string_view) {}).how,
            Ending::How::kNotStarted);
}

TEST(ChildProcess, IsEndedWhenAStepTakesTooLong) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(shell("exec sleep 50", {50ms}).how, Ending::How::kLate);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

TEST(ChildProcess, IsEndedWhenItsTimeIsOverWhateverItSays) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(shell("while true; do echo on; done", {30s, begun + 50ms}).how, Ending::How::kOver);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

TEST(ChildProcess, IsOverRatherThanLateAtWhateverMomentItsTimeEnds) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto end =
        std::chrono::steady_clock::now() + 3ms + std::chrono::microseconds(attempt * 13);
    EXPECT_EQ(shell("while true; do echo on; done", {30s, end}).how, Ending::How::kOver) << attempt;
  }
  // The same of one that has closed its output, and goes on.
  const auto end = std::chrono::steady_clock::now() + 20ms;
  EXPECT_EQ(shell("exec >/dev/null; exec sleep 50", {30s, end}).how, Ending::How::kOver);
}

TEST(ChildProcess, ThatNeverEndsIsEndedAndNamed) {
  const auto begun = std::chrono::steady_clock::now();
  // It ignores the signals that ask it to go, and says nothing.
  ChildProcess child(
      {.command = {"/bin/sh", "-c", "trap '' TERM INT HUP; while true; do :; done"}});
  const Ending& ending = child.attend({100ms}, [](std::string_view) {});
  EXPECT_EQ(ending.how, Ending::How::kLate);
  EXPECT_EQ(ending.sentence(), "did not get on in time and was killed");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

TEST(ChildProcess, IsAskedToEndBeforeItIsKilled) {
  ChildProcess obedient({.command = {"/bin/sh", "-c", "trap 'exit 7' TERM; echo on; sleep 50"},
                         .output = Stream::kPipe});
  char text[4] = {};
  ASSERT_EQ(::read(obedient.output(), text, 3), 3);
  // The shell ends when its sleep does: the signal goes to both in a terminal, here to one.
  obedient.end(SIGKILL, 10s);
  EXPECT_EQ(obedient.ending().how, Ending::How::kSignalled);
  EXPECT_EQ(obedient.ending().sentence(), "was ended by signal 9");
  ChildProcess quick({.command = {"/bin/sleep", "50"}});
  quick.end(SIGTERM, 10s);
  EXPECT_EQ(quick.ending().code, SIGTERM);
  ChildProcess stubborn(
      {.command = {"/bin/sh", "-c", "trap '' TERM; echo on; while true; do :; done"}});
  ASSERT_EQ(::read(stubborn.output(), text, 3), 3);
  stubborn.end(SIGTERM, 50ms);
  EXPECT_EQ(stubborn.ending().code, SIGKILL);
}

TEST(ChildProcess, ThatCouldNotBeStartedSaysWhy) {
  const Ending ending = run_command({"no-such-program-at-all"}, {}, {30s}, [](std::string_view) {});
  EXPECT_EQ(ending.how, Ending::How::kNotStarted);
  EXPECT_EQ(ending.code, ENOENT);
  EXPECT_EQ(ending.sentence(), "could not be started: No such file or directory");
  EXPECT_FALSE(ending.good());
}

TEST(ChildProcess, IsWaitedForNoLongerThanAsked) {
  ChildProcess child({.command = {"/bin/sleep", "50"}});
  EXPECT_FALSE(child.ended_by(base::Deadline::after(20ms)));
  ChildProcess moved = std::move(child);
  // NOLINTNEXTLINE(bugprone-use-after-move): what was moved from stands for no process.
  EXPECT_TRUE(child.ended_by(base::Deadline::after(0ms)));
  EXPECT_FALSE(moved.ended_by(base::Deadline::after(0ms)));
  moved.signal(SIGKILL);
  EXPECT_TRUE(moved.ended_by(base::Deadline::after(20s)));
}

TEST(ChildProcess, DiesWithItsObject) {
  int output[2];
  ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
  {
    ChildProcess child({.command = {"/bin/sleep", "50"}, .output = Stream::kLog, .log = output[1]});
    ::close(output[1]);
  }
  char nothing;
  EXPECT_EQ(::read(output[0], &nothing, 1), 0);  // the last writer is gone
  ::close(output[0]);
}

TEST(ChildProcess, ThatIsLetGoOutlivesItsObjectInASessionOfItsOwn) {
  pid_t pid = -1;
  {
    ChildProcess child(
        {.command = {"/bin/sh", "-c", "echo $$; exec sleep 50"}, .own_session = true});
    char line[32] = "";
    ASSERT_GT(::read(child.output(), line, sizeof line - 1), 0);
    pid = std::atoi(line);
    child.let_go();
  }
  EXPECT_EQ(::getsid(pid), pid);
  EXPECT_EQ(::kill(pid, 0), 0);
  ::kill(pid, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(ChildProcess, IsWhatTheKernelEndsFirstIfItIsToBe) {
  const std::vector<std::string> command = {"/bin/cat", "/proc/self/oom_score_adj"};
  std::string ours, theirs;
  ChildProcess plain({.command = command});
  plain.attend({30s}, [&](std::string_view line) { ours = line; });
  ChildProcess first({.command = command, .first_without_memory = true});
  first.attend({30s}, [&](std::string_view line) { theirs = line; });
  // That of this process, which whoever started it may have offered itself.
  std::string own;
  std::getline(std::ifstream("/proc/self/oom_score_adj"), own);
  EXPECT_EQ(ours, own);
  EXPECT_EQ(theirs, "1000");
}

TEST(ChildProcess, ReadsWhatItIsGiven) {
  ChildProcess child({.command = {"/bin/cat"}, .input = Stream::kPipe});
  ASSERT_EQ(::write(child.input(), "a\nb", 3), 3);
  child.close_input();
  std::vector<std::string> lines;
  EXPECT_TRUE(child.attend({30s}, [&](std::string_view line) { lines.emplace_back(line); }).good());
  EXPECT_THAT(lines, ElementsAre("a", "b"));
}

TEST(ChildProcess, CallsAFunctionInACopyOfThisProcess) {
  ChildProcess child({.work = [] {
    if (::write(STDOUT_FILENO, "from the copy", 13) < 0) ::_exit(1);
  }});
  std::string text;
  EXPECT_TRUE(child.attend({30s}, [&](std::string_view line) { text = line; }).good());
  EXPECT_EQ(text, "from the copy");
  ChildProcess crashed({.work = [] { ::abort(); }});
  EXPECT_EQ(crashed.attend({30s}, [](std::string_view) {}).how, Ending::How::kSignalled);
}

TEST(ChildProcess, LosesTheVariablesThatAreTakenAway) {
  ::setenv("NEURON_TEST_VARIABLE", "ours", 1);
  std::string text;
  const auto keep = [&](std::string_view line) { text = line; };
  const std::vector<std::string> command = {"/bin/sh", "-c", "echo ${NEURON_TEST_VARIABLE-none}"};
  run_command(command, {}, {30s}, keep);
  EXPECT_EQ(text, "ours");
  run_command(command, {{"NEURON_TEST_VARIABLE", "theirs"}}, {30s}, keep);
  EXPECT_EQ(text, "theirs");
  run_command(command, {{"NEURON_TEST_VARIABLE", ""}}, {30s}, keep);
  EXPECT_EQ(text, "none");
  ::unsetenv("NEURON_TEST_VARIABLE");
}

TEST(ChildProcess, KeepsTheEndOfLongErrors) {
  const Ending ending =
      shell("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done", {30s});
  EXPECT_LE(ending.errors.size(), 2048u);
  EXPECT_TRUE(ending.errors.ends_with("line 1999\n"));
}

TEST(OwnProgram, IsTheFileThatRuns) {
  EXPECT_TRUE(own_program().starts_with("/"));
  EXPECT_EQ(program_beside("other"), own_program().substr(0, own_program().rfind('/')) + "/other");
}

}  // namespace
}  // namespace neuron::tools
