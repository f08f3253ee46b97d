// SPDX-License-Identifier: Apache-2.0
// The files that a model is made of: which names count, and what their hash depends on.
#include "tools/neuron-serve/model_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/files.h"

namespace neuron::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string entry(const std::string& name) {
  std::string text("\x0a\x08location\x12", 11);
  for (size_t length = name.size(); true; length >>= 7) {
    text += static_cast<char>(length < 128 ? length : (length & 127) | 128);
    if (length < 128) break;
  }
  return text + name;
}

std::set<std::string> names_in(const std::string& text) {
  return files_of_model({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

TEST(ModelSources, AreNamedOnceAndNeverLeaveTheFolder) {
  EXPECT_THAT(names_in("x" + entry("w") + "y" + entry("./w") + entry("d//w") + entry("d/w")),
              ElementsAre("d/w", "w"));
  EXPECT_THAT(names_in(entry("/etc/passwd") + entry("../w") + entry("d/../../w")), ElementsAre());
  EXPECT_THAT(names_in(entry("w").substr(0, 12)), ElementsAre());
  EXPECT_THAT(names_in(entry(std::string(5000, 'w'))), ElementsAre());
}

TEST(ModelSources, HaveAnEnd) {
  std::string text;
  for (size_t i = 0; i < kMostFilesOfModel + 100; ++i) text += entry(std::to_string(i));
  EXPECT_EQ(names_in(text).size(), kMostFilesOfModel + 1);
  const test::Folder folder;
  folder.write("compiler", "c");
  folder.write("m.onnx", text);
  base::Sha256::Digest digest = {};
  std::string error;
  const auto on = [] { return false; };
  EXPECT_FALSE(hash_sources(folder.path("compiler"), folder.path("m.onnx"), on, digest, error));
  EXPECT_THAT(error, HasSubstr("more than 65536 files"));
}

TEST(ModelSources, HashDependsOnAllContentsAndOnNothingElse) {
  const test::Folder folder;
  folder.write("compiler", "c");
  folder.write("m.onnx", entry("w") + entry("v"));
  folder.write("w", "1");
  folder.write("v", "2");
  const auto hash = [&] {
    base::Sha256::Digest digest = {};
    std::string error;
    EXPECT_TRUE(hash_sources(
        folder.path("compiler"), folder.path("m.onnx"), [] { return false; }, digest, error))
        << error;
    return digest;
  };
  const auto first = hash();
  EXPECT_EQ(hash(), first);
  folder.write("w", "2");
  folder.write("v", "1");
  EXPECT_NE(hash(), first);
  folder.write("w", "1");
  folder.write("v", "2");
  EXPECT_EQ(hash(), first);
  folder.write("compiler", "d");
  EXPECT_NE(hash(), first);
  folder.write("compiler", "c");
  std::filesystem::remove(folder.path("v"));
  EXPECT_NE(hash(), first);
}

TEST(ModelSources, ThatAreNoRegularFilesHoldNothingUp) {
  const test::Folder folder;
  folder.write("compiler", "c");
  folder.write("m.onnx", entry("pipe") + entry("folder"));
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.path("folder"));
  base::Sha256::Digest digest = {};
  std::string error;
  EXPECT_TRUE(hash_sources(
      folder.path("compiler"), folder.path("m.onnx"), [] { return false; }, digest, error))
      << error;
  EXPECT_FALSE(hash_sources(
      folder.path("compiler"), folder.path("pipe"), [] { return false; }, digest, error));
}

TEST(ModelSources, AreNotReadOnWhenTheServerEnds) {
  const test::Folder folder;
  folder.write("compiler", "c");
  folder.write("m.onnx", entry("w"));
  folder.write("w", "");
  ASSERT_EQ(::truncate(folder.path("w").c_str(), off_t{1} << 40), 0);
  size_t asked = 0;
  base::Sha256::Digest digest = {};
  std::string error;
  EXPECT_FALSE(hash_sources(
      folder.path("compiler"), folder.path("m.onnx"), [&] { return ++asked > 20; }, digest, error));
  EXPECT_THAT(error, HasSubstr("was given up"));
  EXPECT_LT(asked, 30u);
}

}  // namespace
}  // namespace neuron::serve
