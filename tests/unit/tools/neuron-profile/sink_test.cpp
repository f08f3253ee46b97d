// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/sink/sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/child.h"
#include "tests/support/files.h"

namespace neuron::profile {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(Sink, AFileTakesItsNameWhenItIsWholeAndKeepsThePermissionsOfAnOlderOne) {
  const test::Folder folder;
  folder.write("out", "old");
  ASSERT_EQ(::chmod(folder.path("out").c_str(), 0640), 0);
  {
    auto sink = Sink::open(folder.path("out"));
    ASSERT_TRUE(sink) << sink.error().sentence;
    sink->write("new");
    EXPECT_EQ(folder.read("out"), "old");
    ASSERT_TRUE(sink->close());
  }
  EXPECT_EQ(folder.read("out"), "new");
  struct stat status {};
  ASSERT_EQ(::stat(folder.path("out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_THAT(names_in(folder.path()), ::testing::ElementsAre("out"));
}

TEST(Sink, AFileThatIsGivenUpLeavesNothing) {
  const test::Folder folder;
  {
    auto sink = Sink::open(folder.path("out"));
    ASSERT_TRUE(sink) << sink.error().sentence;
    sink->write("half");
  }
  EXPECT_THAT(names_in(folder.path()), ::testing::IsEmpty());
}

TEST(Sink, AKilledProcessLeavesNothingWhereFilesWithoutNamesExist) {
  const test::Folder folder;
  const int nameless = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  const bool exist = nameless >= 0;
  if (exist) ::close(nameless);
  test::Child child = test::Child::forked([&]() -> int {
    auto sink = Sink::open(folder.path("out"));
    if (sink) sink->write("half");
    ::_exit(0);  // as a signal does: no destructor runs
  });
  EXPECT_EQ(child.wait(), 0);
  const auto left = names_in(folder.path());
  EXPECT_EQ(left.size(), exist ? 0u : 1u);
  if (!left.empty()) {
    EXPECT_THAT(left[0], ::testing::StartsWith("out.part"));
  }
}

}  // namespace
}  // namespace neuron::profile
