// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "driver/base/file_descriptor.h"
#include "tests/support/files.h"

namespace neuron::test {
namespace {

TEST(ProcessTest, TellsThatAProgramIsMissing) {
  Process process({"/nowhere/program"});
  EXPECT_EQ(process.wait().kind, Ending::Kind::kNotStarted);
}

TEST(ProcessTest, AppendsStandardErrorToTheLog) {
  const Folder folder;
  Process process({"sh", "-c", "echo out; echo error >&2"}, {}, folder.path("log"));
  EXPECT_EQ(process.line(), "out");
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(read_file(folder.path("log")), "error\n");
}

// Opened as a file, /dev/stderr is missing: descriptor 2 is closed before.
TEST(ProcessTest, LeavesStandardErrorAsItIsHere) {
  const Folder folder;
  const std::string path = folder.path("log");
  const base::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const base::FileDescriptor before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::dup2(file.get(), STDERR_FILENO);
  Process process({"sh", "-c", "echo error >&2"}, {}, Process::kSameError);
  const Ending ending = process.wait();
  ::dup2(before.get(), STDERR_FILENO);
  EXPECT_EQ(ending, 0);
  EXPECT_EQ(read_file(path), "error\n");
}

}  // namespace
}  // namespace neuron::test
