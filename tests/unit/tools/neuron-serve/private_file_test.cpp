// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/private_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"

namespace neuron::serve {
namespace {

using ::testing::HasSubstr;

class PrivateFile : public ::testing::Test {
 protected:
  // The sentence against the file with this mode; "" if it is read.
  std::string judge(mode_t mode) {
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    std::string error;
    const auto text = read_private_file(path_, error);
    EXPECT_EQ(text.has_value(), error.empty());
    EXPECT_EQ(text.value_or("secret\n"), "secret\n");
    return error;
  }

  const test::Folder folder_;
  const std::string path_ = folder_.write("tokens", "secret\n");
};

TEST_F(PrivateFile, IsReadIfNobodyElseMayReadOrChangeIt) {
  EXPECT_EQ(judge(0600), "");
  EXPECT_EQ(judge(0400), "");
  for (const mode_t mode : {0644u, 0604u, 0602u, 0660u, 0620u, 0666u, 0601u}) {
    EXPECT_THAT(judge(mode), HasSubstr("chmod 0600")) << std::oct << mode;
  }
}

// Of a file with this owner and mode, towards a server that user 1000 runs.
std::string judge_for_user(uid_t owner, mode_t mode) {
  struct stat status = {};
  status.st_uid = owner;
  status.st_mode = S_IFREG | mode;
  return distrust("tokens", status, 1000);
}

TEST(PrivateFileOwner, IsRootWhoseGroupMayReadOrTheServerWhoseGroupMayNot) {
  EXPECT_EQ(judge_for_user(0, 0640), "");
  EXPECT_EQ(judge_for_user(1000, 0600), "");
  EXPECT_THAT(judge_for_user(1000, 0640), HasSubstr("chmod 0600"));
  EXPECT_THAT(judge_for_user(0, 0660), HasSubstr("chmod 0600"));
  EXPECT_THAT(judge_for_user(0, 0644), HasSubstr("chmod 0600"));
  EXPECT_THAT(judge_for_user(12345, 0600), HasSubstr("belongs to user 12345"));
}

TEST_F(PrivateFile, ThatIsNoneOrTooLargeIsRefused) {
  std::string error;
  EXPECT_FALSE(read_private_file(folder_.path("nothing"), error));
  EXPECT_THAT(error, HasSubstr("No such file"));
  EXPECT_FALSE(read_private_file(folder_.path(), error));
  EXPECT_THAT(error, HasSubstr("no regular file"));
  ASSERT_EQ(::mkfifo(folder_.path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(read_private_file(folder_.path("fifo"), error));
  EXPECT_THAT(error, HasSubstr("no regular file"));
  folder_.write("tokens", std::string((1 << 20) + 1, 'x'));
  EXPECT_FALSE(read_private_file(path_, error));
}

}  // namespace
}  // namespace neuron::serve
