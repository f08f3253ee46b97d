// SPDX-License-Identifier: Apache-2.0
// The contract of all programs: help, version, manual page and completions out of one table.
#include "tools/common/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/tools/golden.h"
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
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  words.insert(words.begin(), "neuron-sample");
  const auto status =
      sample.line.parse(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  const std::string printed = ::testing::internal::GetCapturedStdout();
  const std::string complained = ::testing::internal::GetCapturedStderr();
  if (out) *out = printed;
  if (error) *error = complained;
  return status;
}

TEST(CommandLine, ARepeatableOptionTakesOneValueEachTimeAndLeavesTheArgumentBehindIt) {
  CommandLine line(kManual);
  std::vector<std::string> groups;
  std::string file;
  line.option("--group", groups, "may be given again").repeatable();
  line.option("FILE", file, "which");
  EXPECT_FALSE(line.read({"--group", "a", "--group", "b", "c"}));
  EXPECT_EQ(groups, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file, "c");
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

TEST(CommandLine, SwappedLettersAreOneMistake) {
  for (const auto& [wrong, right] : {std::pair<const char*, const char*>{"--inptu", "--input"},
                                     {"--levle", "--level"},
                                     {"--bacth=3", "--batch"}}) {
    CommandLine line(kManual);
    std::string text;
    for (const char* name : {"--input", "--level", "--batch"}) line.option(name, text);
    const auto answer = line.read({wrong});
    ASSERT_TRUE(answer);
    EXPECT_NE(answer->error.find(std::string("; did you mean ") + right + "?"), std::string::npos)
        << answer->error;
  }
  CommandLine line(kManual);
  line.command("train", "what else it does");
  const auto answer = line.read({"trian"});
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->error.find("not expected: trian; did you mean train?"), std::string::npos)
      << answer->error;
}

TEST(CommandLine, ARequiredOptionThatIsMisspeltIsNamedAsItWasWritten) {
  CommandLine line(kManual);
  std::string models, file;
  line.option("--models", models, "which").required();
  const auto misspelt = line.read({"--modles", "x"});
  ASSERT_TRUE(misspelt);
  EXPECT_EQ(misspelt->status, 2);
  EXPECT_NE(misspelt->error.find("--modles x; did you mean --models?"), std::string::npos)
      << misspelt->error;
  EXPECT_NE(misspelt->error.find("arguments were not expected: --modles x"), std::string::npos)
      << misspelt->error;
  const auto missing = line.read({});
  ASSERT_TRUE(missing);
  EXPECT_NE(missing->error.find("--models is required"), std::string::npos) << missing->error;
}

TEST(CommandLine, AnOptionBehindACommandThatStandsBeforeItIsSentThere) {
  std::string out, error;
  EXPECT_EQ(parse({"show", "file", "--wide"}, &out, &error), 2);
  EXPECT_NE(error.find("--wide stands before the command"), std::string::npos) << error;
  EXPECT_EQ(error.find("did you mean"), std::string::npos) << error;
}

TEST(CommandLine, CommandsThatAreMissingOrUnknownAreNamed) {
  const auto complaint = [](std::vector<const char*> words) {
    Sample sample;
    sample.line.needs_command();
    words.insert(words.begin(), "neuron-sample");
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(sample.line.parse(static_cast<int>(words.size()), const_cast<char**>(words.data())),
              2);
    return ::testing::internal::GetCapturedStderr();
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

// A program with all kinds of options, arguments and commands.
struct Large {
  CommandLine line{Manual{
      .name = "neuron-large",
      .summary = "show all kinds of options",
      .description = "First `bold` line.\n.second line\n'third\n\nterm :: meaning - of it\nmore\n\n"
                     "  verbatim \\ -x\n  .again\nprose\n\nlast",
      .sections = {{"MORE THINGS", "one\n\n  two"}, {"LAST", "end"}},
      .exit_statuses = {kDoneStatus, {1, "not done"}, kUsageStatus},
      .environment = {kEmulatorVariable, kNoColorVariable, {"A_VARIABLE_WITH_A_LONG_NAME", "x"}},
      .examples = {{"neuron-large --list a", "an example"}, {"neuron-large", ""}},
      .see_also = {"neuron-ls(1)", "neuron-top(1)"}}};
  std::string text = "value", file, word, mode = "fast";
  int number = 7;
  int64_t large = 0;
  uint32_t small = 3;
  uint64_t bytes = 0;
  double real = 0.5;
  std::optional<double> maybe;
  std::vector<std::string> list;
  std::vector<int> numbers;
  std::vector<uint32_t> cores;
  std::vector<uint64_t> sizes;
  bool flag = false, used = false;
  size_t chosen = 9;
  Large() {
    line.option("-t,--text", text, "a text; it's 100% [sure]: yes").with_default();
    line.option("--number", number, "a number").between(-5, 10).with_default();
    line.option("--large", large, "a large one");
    line.option("--small", small, "a small one").between(1u, 9u);
    line.option("--bytes", bytes, "bytes").bytes_with_unit();
    line.option("--real", real, "a real").between(0.0, 1.0).with_default("half");
    line.option("--maybe", maybe, "perhaps").value_name("SECONDS");
    line.option("--list", list, "words").separated_by(',').value_name("WORD,...");
    line.option("--numbers", numbers, "numbers").between(0, 63);
    line.option("--sizes", sizes, "sizes").values(1, 2);
    line.option("--mode", mode, "how").one_of({"fast", "slow"}).last_wins();
    Option output = line.option("-o,--output", file, "where to").value_name("FILE");
    line.flag("-f,--flag", flag, "a flag").excludes(output);
    line.option("--cores", cores, "with --output").needs(output);
    line.option("--word", word, "even").judged_by([](const std::string& given) {
      return given.size() % 2 == 0 ? std::string() : "'" + given + "' is odd";
    });
    line.choice(
        "--choice", {"red", "green"}, 1, [this](size_t at) { chosen = at; }, "colour");
    line.option("--hidden", word).hidden();
    Command show = line.command("show", "show things");
    show.needs_command();
    show.command("all", "all of them").on_use([this] { used = true; });
    show.command("one", "one of them").option("NAME", word, "which").required();
    line.command("files", "take files").option("FILE", list, "files");
    line.options_anywhere();
  }
  std::string answer(const std::vector<std::string>& words) {
    const auto ended = line.read(words);
    if (!ended) return "";
    return std::to_string(ended->status) + "\n" + ended->out + ended->error;
  }
};

// A new version changes no golden file.
std::string without_version(std::string text) {
  const std::string number = version();
  for (size_t at; (at = text.find(number)) != std::string::npos;) {
    text.replace(at, number.size(), "VERSION");
  }
  return text;
}

TEST(CommandLine, WritesItsManualHelpAndCompletionsAsBefore) {
  for (const char* what : {"man", "bash", "zsh", "fish"}) {
    neuron::testing::expect_golden(std::string("large.") + what,
                                   without_version(Large().line.generate(what)));
  }
  neuron::testing::expect_golden(
      "large.help", Large().answer({"--help"}) + Large().answer({"show", "one", "--help"}));
}

TEST(CommandLine, ComplainsAsBefore) {
  std::string text;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--number", "11"},
                                             {"--number", "x"},
                                             {"--number", "2.5"},
                                             {"--small", "0"},
                                             {"--real", "1.5"},
                                             {"--bytes", "4 apples"},
                                             {"--large", "x"},
                                             {"--large", "1e3"},
                                             {"--sizes", "99999999999999999999"},
                                             {"--mode", "sloe"},
                                             {"--flag", "--output", "x"},
                                             {"--cores", "1"},
                                             {"--word", "odd"},
                                             {"--choice", "blue"},
                                             {"--numbers", "5", "64"},
                                             {"--outptu", "x"},
                                             {"--hiden", "x"},
                                             {"--qwertyuiop"},
                                             {"show"},
                                             {"show", "al"},
                                             {"show", "one"},
                                             {"sho"},
                                             {"--generate", "pdf"},
                                             {"--version"}}) {
    text += Large().answer(words);
  }
  neuron::testing::expect_golden("large.complaints", without_version(text));
}

TEST(CommandLine, PutsValuesWhereTheyBelong) {
  Large given;
  EXPECT_EQ(given.answer({"--flag",     "-t",       "word", "--number", "-5",   "--large",
                          "5000000000", "--small",  "9",    "--bytes",  "4KB",  "--real",
                          "0.25",       "--maybe",  "2.5",  "--list",   "a,b",  "--list",
                          "c",          "--mode",   "slow", "--mode",   "fast", "--word",
                          "even",       "--choice", "red",  "show",     "all"}),
            "");
  EXPECT_EQ(given.text, "word");
  EXPECT_EQ(given.number, -5);
  EXPECT_EQ(given.large, 5'000'000'000);
  EXPECT_EQ(given.small, 9u);
  EXPECT_EQ(given.bytes, 4096u);
  EXPECT_EQ(given.real, 0.25);
  EXPECT_EQ(given.maybe, 2.5);
  EXPECT_EQ(given.list, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(given.mode, "fast");
  EXPECT_EQ(given.chosen, 0u);
  EXPECT_TRUE(given.flag && given.used);
  EXPECT_TRUE(given.line.given("--flag") && !given.line.given("--output"));
  EXPECT_TRUE(given.line.used("show") && !given.line.used("files"));
  EXPECT_EQ(given.line.used_command(), "show");
  EXPECT_EQ(Large().line.used_command(), "");
}

TEST(CommandLine, TakesOptionsFromTheEnvironmentAndFromAFile) {
  std::string text, other;
  CommandLine line{kManual};
  line.options_file("--config", "options");
  line.option("--text", text, "x").or_variable("NEURON_TEST_TEXT");
  line.option("--other", other, "y");
  ::setenv("NEURON_TEST_TEXT", "of the environment", 1);
  const std::string path = ::testing::TempDir() + "options";
  std::ofstream(path) << "other = of-the-file\n";
  EXPECT_FALSE(line.read({"--config", path}));
  ::unsetenv("NEURON_TEST_TEXT");
  EXPECT_EQ(text, "of the environment");
  EXPECT_EQ(other, "of-the-file");
  CommandLine strict{kManual};
  strict.options_file("--config", "options");
  EXPECT_TRUE(strict.read({"--config", path}));
}

TEST(CommandLine, NamesAFileOfOptionsThatIsNone) {
  const auto complaint_of = [](const std::string& path) {
    std::string other;
    CommandLine line{kManual};
    line.options_file("--config", "options");
    line.option("--other", other, "y");
    const auto answer = line.read({"--config", path});
    return answer ? answer->error : "";
  };
  const std::string path = ::testing::TempDir() + "no-options";
  std::ofstream(path) << "nonsense = 7\n";
  EXPECT_THAT(complaint_of(path),
              ::testing::HasSubstr("'" + path + "': 'nonsense' is no option; expected"));
  EXPECT_THAT(complaint_of(::testing::TempDir()),
              ::testing::HasSubstr("'" + ::testing::TempDir() + "' cannot be read"));
}

// The variables of this process while the test runs.
class Terminal : public ::testing::Test {
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
