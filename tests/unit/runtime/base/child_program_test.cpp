// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/child_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/eventually.h"
#include "tests/support/files.h"

namespace neuron::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class ChildProgram : public ::testing::Test {
 protected:
  std::string script(const std::string& text) const {
    const std::string path = folder_.write("program", "#!/bin/sh\n" + text);
    ::chmod(path.c_str(), 0755);
    return path;
  }
  test::Folder folder_;
};

TEST_F(ChildProgram, IsGivenItsWordsAndWaitedFor) {
  const std::string out = folder_.path("out");
  const auto done =
      run_child_program({script("sleep 0.1; printf '%s|' \"$@\" > " + out), "a b", ""}, 10s);
  ASSERT_TRUE(done) << done.error().sentence;
  EXPECT_EQ(test::read_file(out), "a b||");
}

TEST_F(ChildProgram, SaysHowItEnded) {
  const auto status = run_child_program({script("exit 7")}, 10s);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().sentence, HasSubstr("ended with status 7"));
  const auto signal = run_child_program({script("kill -9 $$")}, 10s);
  ASSERT_FALSE(signal);
  EXPECT_THAT(signal.error().sentence, HasSubstr("was ended by signal 9"));
  const auto none = run_child_program({folder_.path("none")}, 10s);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().sentence, HasSubstr("cannot be started"));
}

TEST_F(ChildProgram, IsKilledWithItsChildrenWhenItTakesTooLong) {
  const std::string file = folder_.path("child");
  const auto begin = std::chrono::steady_clock::now();
  const auto done = run_child_program({script("sleep 300 & echo $! > " + file + "; wait")}, 500ms);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().sentence, HasSubstr("has not ended within 500 ms, and was killed"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "its status has not been taken";
  const pid_t child = std::atoi(test::read_file(file).c_str());
  ASSERT_GT(child, 1);
  EXPECT_TRUE(test::eventually([&] { return ::kill(child, 0) != 0; })) << "its child lives on";
}

TEST_F(ChildProgram, HasNoSignalsBlockedWhateverItsCallerBlocks) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const std::string out = folder_.path("out");
  // A shell blocks signals itself while it starts a program, so grep takes its place.
  const auto done = run_child_program({script("exec grep SigBlk /proc/self/status > " + out)}, 10s);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(done) << done.error().sentence;
  EXPECT_THAT(test::read_file(out), HasSubstr("0000000000000000"));
}

}  // namespace
}  // namespace neuron::runtime
