// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/baseline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/files.h"

namespace neuron::bench {
namespace {

class BaselineTest : public testing::Test {
 protected:
  void SetUp() override { setenv("NEURON_BENCH_BASELINE", "write", 1); }
  void TearDown() override { unsetenv("NEURON_BENCH_BASELINE"); }
  std::string path() const { return folder_.path("processor.json"); }
  std::string text() const { return test::read_file(path()); }

  test::Folder folder_;
};

TEST_F(BaselineTest, KeepsTheLinesOfWhatDidNotRun) {
  Baseline first(path());
  first.look("launch", {.ratio = 0.25, .goal = 0.05, .at_most = true, .peer = "PoCL"});
  first.look("serve", {.ratio = 0.75, .goal = 0.3, .met = true, .peer = "nginx, \"static\""});
  ASSERT_TRUE(first.save());
  const std::string before = text();
  EXPECT_NE(before.find(R"("serve": {"ratio": 0.750, "goal": 0.3, "at most": false, "met": true, )"
                        R"("peer": "nginx, 'static'", "day": ")"),
            std::string::npos)
      << before;

  Baseline second(path());
  second.look("launch", {0.5, 0.05, true, false, "PoCL"});
  ASSERT_TRUE(second.save());
  const std::string after = text();
  EXPECT_NE(after.find("\"launch\": {\"ratio\": 0.500,"), std::string::npos) << after;
  const size_t serve = before.find("\"serve\"");
  EXPECT_EQ(after.substr(after.find("\"serve\"")), before.substr(serve));
}

TEST_F(BaselineTest, TellsOnlyWhatHasMovedByMoreThanATenth) {
  Baseline first(path());
  first.look("launch", {1.0, 2, false, false, "PoCL"});
  ASSERT_TRUE(first.save());
  Baseline second(path());
  EXPECT_FALSE(second.look("launch", {1.099, 2, false, false, "PoCL"}));
  EXPECT_FALSE(second.look("launch", {0.901, 2, false, false, "PoCL"}));
  EXPECT_TRUE(second.look("launch", {1.101, 2, false, false, "PoCL"}));
  EXPECT_TRUE(second.look("launch", {0.899, 2, false, false, "PoCL"}));
  EXPECT_FALSE(second.look("another", {9, 2, false, true, "PoCL"}));
}

TEST_F(BaselineTest, WritesNothingThatNobodyAskedFor) {
  unsetenv("NEURON_BENCH_BASELINE");
  Baseline baseline(path());
  baseline.look("launch", {1.0, 2, false, false, "PoCL"});
  EXPECT_TRUE(baseline.save());
  EXPECT_EQ(text(), "");
}

TEST_F(BaselineTest, SaysThatItsFileCannotBeWritten) {
  Baseline baseline(folder_.path("no/folder.json"));
  baseline.look("launch", {1.0, 2, false, false, "PoCL"});
  EXPECT_FALSE(baseline.save());
}

TEST_F(BaselineTest, DoesNotWriteOverALineThatItDoesNotUnderstand) {
  const std::string line = "{\n  \"launch\": 0.5\n}\n";
  folder_.write("processor.json", line);
  Baseline baseline(path());
  baseline.look("serve", {1.0, 2, false, false, "nginx"});
  EXPECT_FALSE(baseline.save());
  EXPECT_EQ(text(), line);
}

}  // namespace
}  // namespace neuron::bench
