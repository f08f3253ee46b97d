// SPDX-License-Identifier: Apache-2.0
#include "driver/base/process_status.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/child.h"

namespace neuron::base {
namespace {

TEST(ProcessStatus, OfThisProcessIsThatItRunsWhateverItsName) {
  char name[16] = "";
  ASSERT_EQ(::prctl(PR_GET_NAME, name), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, ") Z 1 (2) T"), 0);
  const std::optional<ProcessStatus> status = process_status(::getpid());
  ::prctl(PR_SET_NAME, name);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->state, 'R');
  EXPECT_FALSE(process_has_ended(::getpid()));
  EXPECT_FALSE(status->is_stopped());
  EXPECT_GT(status->start_ticks, 0u);
}

TEST(ProcessStatus, TellsAStoppedProcessFromOneThatHasEnded) {
  test::Child child = test::Child::forked([] {
    for (;;) ::pause();
    return 0;
  });
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  siginfo_t stopped;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &stopped, WSTOPPED | WNOWAIT), 0);
  EXPECT_TRUE(process_status(child.pid()).value_or(ProcessStatus{}).is_stopped());
  EXPECT_FALSE(process_has_ended(child.pid()));
  ASSERT_EQ(::kill(child.pid(), SIGKILL), 0);
  siginfo_t ended;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process_has_ended(child.pid())) << "its parent has not waited for it yet";
  const pid_t pid = child.pid();
  (void)child.wait();
  EXPECT_FALSE(process_status(pid));
  EXPECT_TRUE(process_has_ended(pid));
}

TEST(ProcessStatus, AProcessWhoseFirstThreadHasEndedLivesAsLongAsAnother) {
  test::Child child = test::Child::forked([] { return test::live_in_another_thread(); });
  ASSERT_TRUE(test::eventually(
      [&] { return process_status(child.pid()).value_or(ProcessStatus{}).state == 'Z'; }));
  EXPECT_FALSE(process_has_ended(child.pid()));
  ASSERT_EQ(::kill(child.pid(), SIGKILL), 0);
  EXPECT_TRUE(test::eventually([&] { return process_has_ended(child.pid()); }));
}

TEST(ProcessStatus, WhatCannotBeKnownCountsAsLiving) {
  EXPECT_FALSE(process_has_ended(0));
  EXPECT_FALSE(process_has_ended(-1));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // No descriptor is left to look with.
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool ended = process_has_ended(::getpid());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace neuron::base
