// SPDX-License-Identifier: Apache-2.0
// What neuron-profile view shows, where it goes, and which wishes no profile meets.
#include "tools/neuron-profile/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/files.h"

namespace neuron::profile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class View : public ::testing::Test {
 protected:
  // Of a profile of tests/unit/tools/golden, which is an input: nothing may write to it.
  static ViewWishes of(const std::string& name) {
    ViewWishes wishes;
    wishes.session = test::source("tests/unit/tools/golden/" + name + ".ntff");
    return wishes;
  }
  static std::string shown(const ViewWishes& wishes) {
    const auto result = view(wishes, {});
    EXPECT_TRUE(result) << (result ? "" : result.error().sentence);
    return result ? result->text : "";
  }
  static std::string refusal(const ViewWishes& wishes) {
    const auto result = view(wishes, {});
    return result ? "shown" : result.error().sentence;
  }
  const test::Folder folder_;
};

TEST_F(View, InAFileIsWhatStandsOnTheTerminalOtherwise) {
  for (const char* format : {"report", "summary-text", "summary-json"}) {
    ViewWishes wishes = of("attention");
    wishes.format = format;
    const std::string text = shown(wishes);
    EXPECT_GT(text.size(), 100u) << format;
    wishes.file = "-";
    EXPECT_EQ(shown(wishes), text) << format;
    wishes.file = folder_.path(format);
    EXPECT_EQ(shown(wishes), "wrote " + wishes.file + "\n");
    EXPECT_EQ(test::read_file(wishes.file), text) << format;
  }
}

TEST_F(View, OfEventsIsWrittenToTheFileThatIsNamed) {
  for (const char* format : {"json", "csv", "html", "perfetto"}) {
    ViewWishes wishes = of("attention");
    wishes.format = format;
    wishes.file = folder_.path(format);
    EXPECT_EQ(shown(wishes), "wrote " + wishes.file + "\n");
    EXPECT_GT(test::read_file(wishes.file).size(), 1000u) << format;
  }
}

TEST_F(View, IsOfACoreAndAnExecutionThatThereAre) {
  ViewWishes wishes = of("two_cores");
  const std::string first = shown(wishes);
  wishes.part = 1;
  EXPECT_NE(shown(wishes), first);
  wishes.part = 2;
  EXPECT_THAT(refusal(wishes), AllOf(HasSubstr("is of 2 physical core(s)"), HasSubstr("--core 2")));
  wishes = of("attention");
  const std::string usual = shown(wishes);
  wishes.execution = 1;
  EXPECT_EQ(shown(wishes), usual) << "the only one stands for all";
  wishes.execution = 2;
  EXPECT_THAT(refusal(wishes), HasSubstr("has 1 executions, and --execution is 2"));
}

TEST_F(View, NeverReplacesTheProfileThatItIsOf) {
  ViewWishes wishes = of("attention");
  wishes.session = folder_.path("copy.ntff");
  std::filesystem::copy_file(of("attention").session, wishes.session);
  const std::string before = test::read_file(wishes.session);
  wishes.file = wishes.session;
  for (const char* format : {"report", "json"}) {
    wishes.format = format;
    EXPECT_THAT(refusal(wishes), HasSubstr(wishes.session)) << format;
    EXPECT_EQ(test::read_file(wishes.session), before) << format;
  }
}

}  // namespace
}  // namespace neuron::profile
