// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/neff/neff_info.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::tools {
namespace {

namespace fs = std::filesystem;
using test::must;
using test::SampleProgram;
using testing::HasSubstr;

class Unpack : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "unpack_test_" + std::to_string(getpid());
    fs::remove_all(root_);
    fs::create_directory(root_);
    file_ = SampleProgram().pack();
    container_ = must(neff::Container::open(file_));
  }
  void TearDown() override { fs::remove_all(root_); }

  runtime::Result<void> unpack(bool force = false) {
    return unpack_neff(container_, {root_ + "/out", force});
  }
  std::string refusal(bool force = false) {
    const auto done = unpack(force);
    return done ? "unpacked" : done.error().sentence;
  }

  std::string root_;
  std::vector<uint8_t> file_;
  neff::Container container_;
};

TEST_F(Unpack, WritesEveryMember) {
  ASSERT_EQ(refusal(), "unpacked");
  for (const neff::Member& member : container_.members()) {
    const auto bytes = read_file(root_ + "/out/" + member.name);
    ASSERT_TRUE(bytes) << bytes.error().sentence;
    EXPECT_TRUE(std::equal(bytes->begin(), bytes->end(), member.bytes.begin(), member.bytes.end()));
  }
}

TEST_F(Unpack, RefusesToReplaceAndWritesNothingThen) {
  fs::create_directories(root_ + "/out/sg00");
  ASSERT_TRUE(write_file(root_ + "/out/sg00/w.npy", bytes_of("mine")));
  EXPECT_THAT(refusal(),
              HasSubstr("/out/sg00/w.npy exists; remove it, unpack elsewhere with -C, or replace"));
  EXPECT_FALSE(fs::exists(root_ + "/out/neff.json"));
  EXPECT_EQ(must(read_file(root_ + "/out/sg00/w.npy")), bytes_of("mine"));
  ASSERT_EQ(refusal(true), "unpacked");
  EXPECT_NE(must(read_file(root_ + "/out/sg00/w.npy")), bytes_of("mine"));
}

TEST_F(Unpack, DoesNotFollowSymbolicLinksOutOfTheDirectory) {
  fs::create_directory(root_ + "/elsewhere");
  fs::create_directory(root_ + "/out");
  fs::create_directory_symlink(root_ + "/elsewhere", root_ + "/out/sg00");
  EXPECT_THAT(refusal(), HasSubstr("\"sg00\" in the way of sg00/PE.bin is no directory"));
  EXPECT_THAT(refusal(true), HasSubstr("\"sg00\" in the way of"));
  EXPECT_TRUE(fs::is_empty(root_ + "/elsewhere"));
  fs::remove(root_ + "/out/sg00");
  ASSERT_TRUE(write_file(root_ + "/elsewhere/target", bytes_of("keep")));
  fs::remove(root_ + "/out/neff.json");
  fs::create_symlink(root_ + "/elsewhere/target", root_ + "/out/neff.json");
  EXPECT_THAT(refusal(), HasSubstr("/out/neff.json exists"));
  ASSERT_EQ(refusal(true), "unpacked");  // The link is replaced, its target stays.
  EXPECT_EQ(must(read_file(root_ + "/elsewhere/target")), bytes_of("keep"));
  EXPECT_FALSE(fs::is_symlink(root_ + "/out/neff.json"));
}

TEST_F(Unpack, SaysWhyADirectoryCannotBeUsed) {
  ASSERT_TRUE(write_file(root_ + "/out", bytes_of("a file")));
  EXPECT_THAT(refusal(), HasSubstr("cannot open the directory " + root_ + "/out: Not a directory"));
  const auto done = unpack_neff(container_, {root_ + "/no/such", false});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().sentence, HasSubstr("cannot create the directory"));
}

TEST_F(Unpack, ReadsRegularFilesOnly) {
  EXPECT_THAT(read_file("/dev/zero").error().sentence,
              HasSubstr("/dev/zero is not a regular file"));
  EXPECT_THAT(read_file(root_ + "/none").error().sentence,
              HasSubstr("cannot open " + root_ + "/none: No such file"));
  ASSERT_EQ(mkfifo((root_ + "/fifo").c_str(), 0600), 0);
  EXPECT_THAT(read_file(root_ + "/fifo").error().sentence, HasSubstr("is not a regular file"));
}

TEST(Info, ShowsHeaderAndTensors) {
  const auto file = SampleProgram().pack();
  const auto container = must(neff::Container::open(file));
  const std::string text = neff_info_text(container);
  EXPECT_THAT(text, HasSubstr("Features:          0x10000000000000 (open-program)\n"));
  EXPECT_THAT(text, HasSubstr("Runs on:           trn1 or inf2, logical cores of 1; trn2 with "
                              "NEURON_RT_ALLOW_LEGACY_NEFF=1 and NEURON_LOGICAL_NC_CONFIG=1\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "1     NeuronCore  sg00  x:0       256   IN    NC      [4, 16]  float32   false\n"));
  const std::string json = neff_info_json(container);
  EXPECT_THAT(json, HasSubstr("\"runs_here\":true"));
  EXPECT_THAT(json, HasSubstr("\"runs_on\":\"trn1 or inf2, logical cores of 1; trn2 with "));
  EXPECT_THAT(json, HasSubstr("{\"name\":\"sg00/raw.dat\",\"size\":5}"));
  EXPECT_THAT(json, HasSubstr("\"name\":\"y:0\",\"size\":256"));
}

TEST(Info, SaysWhyAForeignProgramDoesNotRunHere) {
  SampleProgram sample;
  sample.options.feature_bits = 0x81;
  sample.set("neff.json", "{}");
  sample.options.name = "evil\x1b[31m";
  const auto file = sample.pack();
  const std::string text = neff_info_text(must(neff::Container::open(file)));
  EXPECT_THAT(
      text,
      HasSubstr("Runs on:           nothing here: the program was built for trn1 by sample 0.1"));
  EXPECT_THAT(text, testing::Not(HasSubstr("bit-")));
  EXPECT_THAT(text, HasSubstr("Name:              evil\\x1b[31m\n"));
}

}  // namespace
}  // namespace neuron::tools
