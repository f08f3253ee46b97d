// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/files.h"

namespace neuron::tools {
namespace {

class File : public ::testing::Test {
 protected:
  static std::span<const uint8_t> bytes_of(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }
  static std::string text_of(const std::string& path) {
    const auto bytes = read_file(path);
    return bytes ? std::string(bytes->begin(), bytes->end()) : "unreadable";
  }
  bool is_alone(size_t files) const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(root_), {})) ==
           files;
  }

  const test::Folder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(File, IsReplacedAsAWholeAndLeavesNothingBeside) {
  ASSERT_TRUE(write_file(root_ + "/a", bytes_of("first")));
  ASSERT_TRUE(write_file(root_ + "/a", bytes_of("second")));
  EXPECT_EQ(text_of(root_ + "/a"), "second");
  EXPECT_TRUE(is_alone(1));
}

TEST_F(File, BehindASymbolicLinkIsReplacedAndTheLinkStays) {
  ASSERT_TRUE(write_file(root_ + "/a", bytes_of("first")));
  ASSERT_EQ(symlink("a", (root_ + "/link").c_str()), 0);
  ASSERT_TRUE(write_file(root_ + "/link", bytes_of("second")));
  EXPECT_TRUE(std::filesystem::is_symlink(root_ + "/link"));
  EXPECT_EQ(text_of(root_ + "/a"), "second");
}

TEST_F(File, OfATerabyteIsRefusedAndSoIsALargeOneOfHoles) {
  ASSERT_TRUE(write_file(root_ + "/large", bytes_of("beginning")));
  ASSERT_EQ(truncate((root_ + "/large").c_str(), off_t{1} << 40), 0);
  const auto large = read_file(root_ + "/large");
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().sentence.find("1099511627776 bytes, and at most 17179869184 are read"),
            std::string::npos)
      << large.error().sentence;
  ASSERT_EQ(truncate((root_ + "/large").c_str(), off_t{2} << 30), 0);
  const auto holes = read_file(root_ + "/large");
  ASSERT_FALSE(holes);
  EXPECT_NE(holes.error().sentence.find("the others are holes"), std::string::npos)
      << holes.error().sentence;
  ASSERT_EQ(truncate((root_ + "/large").c_str(), 1 << 20), 0);
  EXPECT_TRUE(read_file(root_ + "/large")) << "a small file may have holes";
  EXPECT_FALSE(read_file(root_ + "/large", 1000));
}

TEST_F(File, NeverReplacesAFifo) {
  const std::string path = root_ + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto nobody = write_file(path, bytes_of("hello"));
  ASSERT_FALSE(nobody);  // without a reader it fails instead of waiting
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(write_file(path, bytes_of("hello")));
  std::array<char, 8> got{};
  EXPECT_EQ(read(reader, got.data(), got.size()), 5);
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_TRUE(is_alone(1));
}

TEST_F(File, OnAFullDeviceFailsWithTheSystemsReason) {
  // Through a link, so that a mistake would replace the link and not the device.
  ASSERT_EQ(symlink("/dev/full", (root_ + "/full").c_str()), 0);
  const auto result = write_file(root_ + "/full", bytes_of("hello"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().sentence.find("No space left"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(File, CannotBeMadeWhereThereIsNoFolder) {
  const auto result = write_file(root_ + "/nowhere/file", bytes_of("hello"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().sentence.find("cannot create " + root_ + "/nowhere/file: No such file"),
            std::string::npos)
      << result.error().sentence;
}

TEST_F(File, CannotBeADirectory) {
  const auto result = write_file(root_, bytes_of("hello"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().sentence.find("is a directory"), std::string::npos);
}

}  // namespace
}  // namespace neuron::tools
