// SPDX-License-Identifier: Apache-2.0
// A rank whose bootstrap thread alone has no turn, as on a host with too much to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ccom/bootstrap/bootstrap.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/unit/ccom/bootstrap/free_address.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Result<std::unique_ptr<Bootstrap>> join_two(Rank rank, const std::string& root) {
  JoinOptions options;
  options.rank = rank;
  options.size = 2;
  options.root = root;
  options.deadline = base::Deadline::after(milliseconds(20000));
  return Bootstrap::join(options);
}

// 0: the process has none.
pid_t bootstrap_thread_of(pid_t process) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    if (test::read_file(task.path() / "comm") == "ccom-bootstrap\n") {
      return std::stoi(task.path().filename());
    }
  }
  return 0;
}

TEST(NetworkRounds, WhoseCountingThreadIsStoppedSayThatAndNotThatRankZeroWaitsForItself) {
  const std::string root = free_address();
  int begin[2], told[2];
  ASSERT_EQ(pipe(begin), 0);
  ASSERT_EQ(pipe(told), 0);
  auto zero = test::Child::forked([&] {
    const auto joined = join_two(0, root);
    char byte;
    if (!joined || read(begin[0], &byte, 1) != 1) return 1;
    const auto all = (*joined)->all_gather({}, base::Deadline::after(milliseconds(300)));
    const std::string sentence = all ? "" : all.error().sentence;
    return write(told[1], sentence.data(), sentence.size()) > 0 && read(begin[0], &byte, 1) == 1
               ? 0
               : 2;
  });
  // Only the child holds these now, so a child that ends ends what is read of it.
  close(begin[0]);
  close(told[1]);
  const auto one = join_two(1, root);
  ASSERT_TRUE(one) << one.error().sentence;
  const pid_t thread = bootstrap_thread_of(zero.pid());
  ASSERT_NE(thread, 0);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_EXITKILL), 0);
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
  int status = 0;
  ASSERT_EQ(waitpid(thread, &status, __WALL), thread);
  ASSERT_EQ(write(begin[1], "g", 1), 1);
  char sentence[1024];
  const ssize_t length = read(told[0], sentence, sizeof sentence);
  ASSERT_GT(length, 0);
  EXPECT_THAT(
      std::string(sentence, static_cast<size_t>(length)),
      AllOf(HasSubstr("rank 0"), HasSubstr("its thread that counts who has come had no turn"),
            Not(HasSubstr("which did not say"))));
  ASSERT_EQ(ptrace(PTRACE_DETACH, thread, nullptr, nullptr), 0);
  ASSERT_EQ(write(begin[1], "e", 1), 1);
  EXPECT_EQ(zero.wait(), 0);
  for (const int end : {begin[1], told[0]}) close(end);
}

}  // namespace
}  // namespace neuron::ccom
