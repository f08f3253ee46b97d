// SPDX-License-Identifier: Apache-2.0
// The contract of all programs: help, version, manual page and completions out of one table.
#include "tools/common/command_line.h"

#include <gtest/gtest.h>

#include <vector>

#include "tools/common/terminal.h"
#include "tools/common/version.h"

namespace neuron::tools {
namespace {

const Manual kManual{.name = "neuron-sample",
                     .summary = "show what a program is",
                     .description = "First.\n\nterm :: meaning\n\n  .verbatim -x",
                     .sections = {{"MORE", "With `bold` words."}},
                     .exit_statuses = {kDoneStatus, {5, "not healthy"}},
                     .environment = {kNoColorVariable},
                     .examples = {{"neuron-sample --format json", "for programs"}},
                     .see_also = {"neuron-ls(1)", "neuron-top(1)"}};

struct Sample {
  CommandLine line{kManual};
  std::string format, file;
  bool wide = false;
  Sample() {
    line.flag("-w,--wide", wide, "wider; it's 100%");
    line.option("--format", format, "how").one_of({"text", "json"});
    line.option("--hidden", format).hidden();
    line.command("show", "show a file").option("FILE", file, "which").required();
  }
};

std::optional<int> parse(std::vector<const char*> words, std::string* out = nullptr,
                         std::string* error = nullptr) {
  Sample sample;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  words.insert(words.begin(), "neuron-sample");
  const auto status =
      sample.line.parse(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  const std::string printed = testing::internal::GetCapturedStdout();
  const std::string complained = testing::internal::GetCapturedStderr();
  if (out) *out = printed;
  if (error) *error = complained;
  return status;
}

TEST(CommandLine, GoesOnAfterGoodArguments) { EXPECT_EQ(parse({"--wide"}), std::nullopt); }

TEST(CommandLine, HelpIsOnStandardOutputWithExamplesEnvironmentAndExitStatuses) {
  std::string out, error;
  EXPECT_EQ(parse({"--help"}, &out, &error), 0);
  for (const char* part : {"Show what a program is.", "--wide", "neuron-sample --format json",
                           "NO_COLOR", "not healthy"}) {
    EXPECT_NE(out.find(part), std::string::npos) << part << " is not in " << out;
  }
  EXPECT_EQ(out.find("hidden"), std::string::npos);
  EXPECT_EQ(error, "");
}

TEST(CommandLine, VersionIsTheNameAndTheNumber) {
  std::string out;
  EXPECT_EQ(parse({"--version"}, &out), 0);
  EXPECT_EQ(out, std::string("neuron-sample ") + version() + "\n");
}

TEST(CommandLine, WrongUsageIsTwoAndLeavesStandardOutputEmpty) {
  std::string out, error;
  EXPECT_EQ(parse({"--nonsense"}, &out, &error), 2);
  EXPECT_EQ(out, "");
  EXPECT_NE(error, "");
  EXPECT_EQ(parse({"--format", "xml"}), 2);
  EXPECT_EQ(parse({"--generate", "pdf"}), 2);
}

TEST(CommandLine, ComplaintsNameTheProgramAndTheOptionThatWasMeant) {
  std::string out, error;
  EXPECT_EQ(parse({"--widd"}, &out, &error), 2);
  EXPECT_EQ(error.rfind("neuron-sample: ", 0), 0u) << error;
  EXPECT_NE(error.find("--widd; did you mean --wide?"), std::string::npos) << error;
  EXPECT_NE(error.find("neuron-sample --help"), std::string::npos) << error;
  EXPECT_EQ(parse({"--nonsense"}, &out, &error), 2);
  EXPECT_EQ(error.find("did you mean"), std::string::npos) << error;
  EXPECT_EQ(parse({"--hiden", "x"}, &out, &error), 2);
  EXPECT_EQ(error.find("did you mean"), std::string::npos) << error;
}

TEST(CommandLine, CommandsThatAreMissingOrUnknownAreNamed) {
  const auto complaint = [](std::vector<const char*> words) {
    Sample sample;
    sample.line.needs_command();
    words.insert(words.begin(), "neuron-sample");
    testing::internal::CaptureStderr();
    EXPECT_EQ(sample.line.parse(static_cast<int>(words.size()), const_cast<char**>(words.data())),
              2);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(complaint({}),
            "neuron-sample: a command is missing; it is one of show\n"
            "neuron-sample --help says what there is.\n");
  EXPECT_EQ(complaint({"shown"}),
            "neuron-sample: there is no command \"shown\"; it is one of show\n"
            "neuron-sample --help says what there is.\n");
}

TEST(ManualPage, HasEverySectionAndEscapesWhatRoffWouldTake) {
  Sample sample;
  const std::string page = sample.line.generate("man");
  for (const char* part : {".TH NEURON\\-SAMPLE 1", "neuron\\-sample \\- show what a program is",
                           "\\fB\\-w, \\-\\-wide\\fR", "\\fB\\-\\-format\\fR \\fItext|json\\fR",
                           ".SS \"show\"", ".TP\n\\fBterm\\fR\nmeaning\n", "\\&.verbatim \\-x",
                           "With \\fBbold\\fR words.", ".SH \"EXIT STATUS\"",
                           ".TP\n\\fB5\\fR\nnot healthy", "neuron\\-ls(1),\nneuron\\-top(1)\n"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << " is not in\n" << page;
  }
  EXPECT_EQ(page.find("hidden"), std::string::npos);
}

TEST(Completion, KnowsValuesCommandsAndWhereFilesBelong) {
  Sample sample;
  const std::string bash = sample.line.generate("bash");
  EXPECT_NE(bash.find("--format) COMPREPLY=($(compgen -W 'text json'"), std::string::npos) << bash;
  EXPECT_NE(bash.find("' show')"), std::string::npos) << bash;
  const std::string zsh = sample.line.generate("zsh");
  EXPECT_NE(zsh.find("it'\\''s 100%"), std::string::npos) << zsh;
  EXPECT_NE(zsh.find("'1:FILE:_files'"), std::string::npos) << zsh;
  const std::string fish = sample.line.generate("fish");
  EXPECT_NE(fish.find("-l format -x -a 'text json'"), std::string::npos) << fish;
  EXPECT_NE(fish.find("-a show -d 'show a file'"), std::string::npos) << fish;
  for (const std::string& text : {bash, zsh, fish}) {
    EXPECT_EQ(text.find("hidden"), std::string::npos);
  }
}

// The variables of this process while the test runs.
class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE"}) unsetenv(name);
    setenv("TERM", "xterm", 1);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(Terminal, IsPlainWhereOutputIsNoTerminal) {
  EXPECT_FALSE(style_of(-1, ColorMode::kAuto).color);
  EXPECT_EQ(painted({}, Paint::kBad, "word"), "word");
}

TEST_F(Terminal, ObeysTheVariablesThatPeopleSet) {
  setenv("CLICOLOR_FORCE", "1", 1);
  EXPECT_TRUE(style_of(-1, ColorMode::kAuto).color);
  EXPECT_FALSE(style_of(-1, ColorMode::kNever).color);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(style_of(-1, ColorMode::kAuto).color);
  EXPECT_TRUE(style_of(-1, ColorMode::kAlways).color);
}

TEST_F(Terminal, ShowsNoControlSequenceOfSomebodyElse) {
  EXPECT_EQ(printable("a\033[2Jb\n"), "a [2Jb ");
  EXPECT_EQ(printable("\xFFz"), "?z");
  EXPECT_EQ(columns_of("é◄"), 2u);
}

}  // namespace
}  // namespace neuron::tools
