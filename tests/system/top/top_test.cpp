// SPDX-License-Identifier: Apache-2.0
// neuron-top as a person sees it, beside a daemon and the models that run on its devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "tests/support/daemon.h"
#include "tests/system/top/screen.h"

namespace neuron::top {
namespace {

using test::Daemon;
using test::Folder;
using test::Run;
using test::Worker;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

const std::string kProgram = test::built("bin/neuron-top");
const std::string kValidate = test::source("tests/system/programs/validate");

Run run(const std::string& emulator, const std::string& arguments) {
  return test::shell(kProgram + " " + arguments,
                     {{"NEURON_EMULATOR", emulator}, {"LC_ALL", "C.UTF-8"}});
}

// The line of the grid that begins with "ND1 ".
std::string grid_line(const Picture& picture, const std::string& device) {
  for (int y = 0; y < picture.height(); ++y) {
    if (picture.line(y).rfind(device + " ", 0) == 0) return picture.line(y);
  }
  return "";
}

bool has(const Picture& picture, const std::string& expression) {
  return std::regex_search(picture.text(), std::regex(expression));
}

// Whether the line of the text that has `part` has this end.
bool ends(const std::string& text, const std::string& part, const std::string& end) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return false;
  const std::string line = text.substr(at, text.find('\n', at) - at);
  return line.size() >= end.size() && line.substr(line.size() - end.size()) == end;
}

class TopScreen : public testing::Test {
 protected:
  test::Environment environment() const { return {{"NEURON_EMULATOR", emulator_}}; }
  std::vector<std::string> command(const std::string& interval = "200ms") const {
    return {kProgram, "--interval", interval};
  }
  Folder folder_;
  std::string emulator_ = "trn1.2xlarge";  // within the process, if a test starts no daemon
};

TEST_F(TopScreen, ShowsCoresProcessesAndMemoryOfTwoModelsAndOneThatIsKilledIsGone) {
  Daemon daemon(folder_, "trn1.32xlarge");
  emulator_ = daemon.emulator();
  Worker left(folder_, emulator_, 3, "matmul_f32_256.neff", {{"NEURON_PROCESS_TAG", "left"}});
  Worker right(folder_, emulator_, 20, "matmul_f32_256.neff", {{"NEURON_PROCESS_TAG", "right"}});
  ASSERT_EQ(left.line(), "ready") << left.log();
  ASSERT_EQ(right.line(), "ready") << right.log();
  // 64 MiB of one process alone.
  ASSERT_THAT(left.ask("copy 1"), Not(HasSubstr("failed")));
  left.process().say("forever");
  right.process().say("forever");
  Screen screen(command(), environment(), 180, 62);

  // The cores: 3 is the second of device 1, 20 the first of device 10; no other works.
  ASSERT_TRUE(screen.until([](const Picture& picture) {
    return has(picture, "\nND1  .*\\[0\\.00%\\].*\\|\\.*\\[[0-9.]*[1-9][0-9.]*%\\]") &&
           has(picture, "\nND10 .*\\|\\.*\\[[0-9.]*[1-9][0-9.]*%\\].*\\[0\\.00%\\]");
  })) << screen.text();
  for (int device = 0; device < 16; ++device) {
    const std::string line = grid_line(screen.picture(), "ND" + std::to_string(device));
    if (device == 1 || device == 10) continue;
    EXPECT_THAT(line, MatchesRegex("ND[0-9]+ +\\.+\\[0\\.00%\\] +\\.+\\[0\\.00%\\]"));
  }

  // The memory: 64 MiB and the inputs and outputs of the product are 65.2 MB, and without the
  // first 1.2 MB.
  EXPECT_THAT(screen.text(), HasSubstr("neuron-top"));
  EXPECT_TRUE(screen.shows("[2]:")) << screen.text();
  const pid_t left_pid = left.process().pid(), right_pid = right.process().pid();
  const char left_tab = left_pid < right_pid ? '2' : '3',
             right_tab = left_pid < right_pid ? '3' : '2';
  EXPECT_TRUE(screen.shows(std::string("[") + left_tab + "]:left")) << screen.text();
  EXPECT_TRUE(screen.shows(std::string("[") + right_tab + "]:right")) << screen.text();
  screen.press(std::string(1, left_tab));
  EXPECT_TRUE(screen.until([](const Picture& picture) {
    return has(picture, "Device Used Memory .* Tensors: 65\\.[0-9]MB");
  })) << screen.text();
  EXPECT_TRUE(screen.shows(">[" + std::string(1, left_tab) + "]:left<"));
  screen.press(std::string(1, right_tab));
  EXPECT_TRUE(screen.until([](const Picture& picture) {
    return has(picture, "Device Used Memory .* Tensors: 1\\.[0-9]MB");
  })) << screen.text();
  // Who else works is not seen under this tab.
  EXPECT_THAT(grid_line(screen.picture(), "ND1"), Not(HasSubstr("|")));

  // The processes.
  screen.press("1p");
  EXPECT_TRUE(screen.until([&](const Picture& picture) {
    return has(picture, "\n *" + std::to_string(left_pid) + " .* left +3 .*multi-worker") &&
           has(picture, "\n *" + std::to_string(right_pid) + " .* right +20 .*multi-worker");
  })) << screen.text();

  // One is killed.
  left.process().signal(SIGKILL);
  const auto killed = test::Clock::now();
  EXPECT_TRUE(screen.until([&](const Picture& picture) {
    return !has(picture, "\n *" + std::to_string(left_pid) + " ") && !has(picture, "]:left") &&
           grid_line(picture, "ND1").find('|') == std::string::npos;
  })) << screen.text();
  // A refresh, and what a machine with other things to do takes to show it.
  EXPECT_LT(std::chrono::duration<double>(test::Clock::now() - killed).count(), 5);
  EXPECT_THAT(screen.text(), HasSubstr("]:right"));
  // An execution that takes longer than a refresh is seen when it has ended.
  EXPECT_TRUE(screen.until([](const Picture& picture) {
    return grid_line(picture, "ND10").find('|') != std::string::npos;
  })) << screen.text();
  screen.press("q");
  EXPECT_EQ(screen.end(), 0);
  EXPECT_TRUE(screen.picture().given_back());
}

TEST_F(TopScreen, ExplainsThatTheDaemonWasKilledAndGoesOnWithTheNextOne) {
  Daemon daemon(folder_);
  emulator_ = daemon.emulator();
  Screen screen(command(), environment());
  ASSERT_TRUE(screen.shows("[-] ND 0")) << screen.text();
  daemon.process().kill();
  EXPECT_TRUE(screen.shows("start one with neuron-emulatord")) << screen.text();
  EXPECT_TRUE(screen.running());
  daemon.restart();
  EXPECT_TRUE(screen.lacks("start one with neuron-emulatord")) << screen.text();
  EXPECT_TRUE(screen.shows("[-] ND 0")) << screen.text();
  screen.press("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(TopScreen, FitsItselfToTerminalsOfEverySize) {
  Screen screen(command(), environment());
  ASSERT_TRUE(screen.shows("Memory Usage Summary")) << screen.text();
  screen.resize(20, 5);
  EXPECT_TRUE(screen.until([](const Picture& picture) {
    return picture.line(4) == ">all< q:quit" && has(picture, "0/2 cores");
  })) << screen.text();
  screen.resize(1, 1);
  screen.press("d");
  screen.resize(190, 50);
  EXPECT_TRUE(screen.shows("Memory Usage Summary")) << screen.text();
  EXPECT_TRUE(screen.shows("1-9: select tab")) << screen.text();
  screen.resize(80, 24);
  screen.press("?");
  EXPECT_TRUE(screen.shows("expand or collapse the entire tree")) << screen.text();
  screen.press("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(TopScreen, BeginsOnATerminalOfTwentyColumnsByFive) {
  Screen screen(command(), environment(), 20, 5);
  EXPECT_TRUE(screen.until([](const Picture& picture) {
    return picture.line(4) == ">all< q:quit";
  })) << screen.text();
  screen.press("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(TopScreen, UnderstandsTheKeysThatTerminalsSend) {
  Screen screen(command(), environment());
  ASSERT_TRUE(screen.shows("[-] NC 1")) << screen.text();
  screen.press("\x1bOB");  // down, to the device
  screen.press("\r");
  EXPECT_TRUE(screen.shows("[+] ND 0")) << screen.text();
  screen.press("\x1bOC");  // right
  EXPECT_TRUE(screen.shows("[-] ND 0")) << screen.text();
  screen.press("/nonsense\r");
  EXPECT_TRUE(screen.shows("filter: nonsense")) << screen.text();
  EXPECT_TRUE(screen.lacks("ND 0")) << screen.text();
  screen.press("\x1b");
  EXPECT_TRUE(screen.shows("[-] ND 0")) << screen.text();
  screen.press("f");
  EXPECT_TRUE(screen.shows("Effective FLOPS (Total: 0.00T)")) << screen.text();
  screen.press(" ");
  EXPECT_TRUE(screen.shows("[paused]")) << screen.text();
  screen.press("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(TopScreen, EndsAtOnceWhenItIsToldAndGivesTheTerminalBack) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    Screen screen(command("60s"), environment());
    ASSERT_TRUE(screen.shows("ND 0")) << screen.text();
    ::usleep(400'000);  // it sleeps until the next minute
    const auto start = test::Clock::now();
    screen.signal(number);
    EXPECT_EQ(screen.end(), 0);
    EXPECT_LT(std::chrono::duration<double>(test::Clock::now() - start).count(), 10);
    EXPECT_TRUE(screen.picture().given_back());
  }
}

TEST_F(TopScreen, EndsWhenItsTerminalIsClosed) {
  Screen screen(command("60s"), environment());
  ASSERT_TRUE(screen.shows("ND 0")) << screen.text();
  screen.close_terminal();
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(TopScreen, HasColoursUnlessNoColorIsSet) {
  Screen colored(command(), environment());
  ASSERT_TRUE(colored.shows("ND 0")) << colored.text();
  EXPECT_TRUE(colored.picture().colored());
  test::Environment without = environment();
  without["NO_COLOR"] = "1";
  Screen plain(command(), without);
  ASSERT_TRUE(plain.shows("ND 0")) << plain.text();
  EXPECT_FALSE(plain.picture().colored());
}

TEST_F(TopScreen, SaysWhatIsWrongWithATerminalThatItCannotUse) {
  for (const char* type : {"no-such-terminal", "dumb", ""}) {
    test::Environment other = environment();
    other["TERM"] = type;
    Screen screen(command(), other, 200, 24);
    EXPECT_EQ(screen.end(), 1) << type;
    EXPECT_THAT(screen.text(),
                HasSubstr(std::string("neuron-top: the terminal type TERM=") + type));
    EXPECT_THAT(screen.text(), HasSubstr("--once"));
  }
}

TEST_F(TopScreen, ReplaysARecordingStepByStep) {
  const std::string file = folder_.path("recording");
  ASSERT_EQ(run(emulator_, "--record " + file + " --iterations 3 --interval 100ms").ending, 0);
  Screen screen({kProgram, "--replay", file, "--interval", "60s"}, environment());
  EXPECT_TRUE(screen.shows("replay 2/4")) << screen.text();  // the second comes soon
  screen.press(" .");
  EXPECT_TRUE(screen.shows("replay 3/4")) << screen.text();
  screen.press(",,");
  EXPECT_TRUE(screen.shows("replay 1/4")) << screen.text();
  screen.press(",....");
  EXPECT_TRUE(screen.shows("replay 4/4")) << screen.text();
  screen.press("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST(TopBatch, PrintsPicturesOfTheSizeThatIsAsked) {
  const auto [status, output] = run("trn1.2xlarge", "--once --width 60 --height 20");
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 20);
  EXPECT_THAT(output, HasSubstr("[-] ND 0"));
  const auto [again, two] = run("trn1.2xlarge", "--iterations 2 --interval 100ms --height 15");
  EXPECT_EQ(again, 0);
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 30);
  EXPECT_THAT(two, Not(HasSubstr("\x1b")));
}

TEST(TopBatch, WritesDocumentsAndLinesThatTheSchemaTakes) {
  Folder folder;
  Daemon daemon(folder);
  Worker worker(folder, daemon.emulator(), 1, "matmul_f32_256.neff");
  ASSERT_EQ(worker.line(), "ready") << worker.log();
  const std::string file = folder.path("out");
  for (const char* format : {"json", "ndjson"}) {
    const auto [status, output] =
        run(daemon.emulator(), std::string("--iterations 1 --format ") + format + " >" + file);
    EXPECT_EQ(status, 0) << output;
    const std::string lines = format[0] == 'n' ? "--lines " : "";
    const auto [fits, complaint] = test::shell(kValidate + " " + lines + "neuron-top " + file);
    EXPECT_EQ(fits, 0) << complaint;
    EXPECT_THAT(test::read_file(file), HasSubstr(std::to_string(worker.process().pid())));
  }
}

TEST(TopBatch, NamesALinkThatIsDownInThePictureAndInTheRecords) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.32xlarge");
  ASSERT_EQ(daemon.control({"link", "down", "2", "3"}), 0);
  const auto [status, picture] = run(daemon.emulator(), "--once --width 80 --height 24");
  EXPECT_EQ(status, 0);
  EXPECT_THAT(picture, HasSubstr("\nLinks that are down: 2 - 3\n"));
  const std::string file = folder.path("out");
  EXPECT_EQ(run(daemon.emulator(), "--once --format json >" + file).ending, 0);
  const auto [fits, complaint] = test::shell(kValidate + " neuron-top " + file);
  EXPECT_EQ(fits, 0) << complaint;
  EXPECT_THAT(test::read_file(file), HasSubstr("Links that are down: 2 - 3"));
  const auto [csv_status, csv] = run(daemon.emulator(), "--once --format csv");
  EXPECT_EQ(csv_status, 0);
  // Both cores of both devices.
  for (const char* core : {",2,4,", ",2,5,"}) EXPECT_TRUE(ends(csv, core, ",3")) << csv;
  for (const char* core : {",3,6,", ",3,7,"}) EXPECT_TRUE(ends(csv, core, ",2")) << csv;
  EXPECT_TRUE(ends(csv, ",0,0,", ",")) << csv;
}

TEST(TopBatch, SeveralReportsAreALineEachAndHaveTheirHeadingsOnce) {
  const std::string twice = "--iterations 2 --interval 50ms --format ";
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto [json_status, json] = run("trn1.2xlarge", twice + "json");
  EXPECT_EQ(json_status, 0);
  EXPECT_EQ(lines(json), 2) << json;
  const auto [ndjson_status, ndjson] = run("trn1.2xlarge", twice + "ndjson");
  EXPECT_EQ(ndjson_status, 0);
  EXPECT_EQ(lines(ndjson), 2 * 2) << ndjson;  // of two cores
  const auto [csv_status, csv] = run("trn1.2xlarge", twice + "csv");
  EXPECT_EQ(csv_status, 0);
  EXPECT_EQ(lines(csv), 1 + 2 * 2) << csv;
  const auto [once_status, once] = run("trn1.2xlarge", "--once --format ndjson");
  EXPECT_EQ(once_status, 0);
  EXPECT_EQ(lines(once), 2) << once;
}

TEST(TopBatch, SaysWhyThereIsNothingToSee) {
  const auto [status, output] = run("unix:/nowhere/at/all", "--once --width 200");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output,
              HasSubstr("neuron-top: NEURON_EMULATOR=unix:/nowhere/at/all: no daemon answers"));
  EXPECT_THAT(output, HasSubstr("NeuronCore"));
  const auto [no_terminal, sentence] = run("trn1.2xlarge", "");
  EXPECT_EQ(no_terminal, 1);
  EXPECT_THAT(sentence, HasSubstr("are no terminal; --once prints"));
}

TEST(TopBatch, GoesOnAndFailsAtTheEndWhenTheDiskOfTheRecordingIsFull) {
  const auto [status, output] = run("trn1.2xlarge", "--once --record /dev/full");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, HasSubstr("the recording in /dev/full has ended: No space left on device"));
  EXPECT_THAT(output, HasSubstr("[-] ND 0"));
  const auto [full, sentence] = run("trn1.2xlarge", "--once >/dev/full");
  EXPECT_EQ(full, 1);
  EXPECT_THAT(sentence, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST(TopBatch, RefusesRecordingsThatAreNone) {
  const auto [status, output] = run("trn1.2xlarge", "--once --replay /tmp");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, HasSubstr("cannot replay /tmp: it is a directory"));
  EXPECT_EQ(run("trn1.2xlarge", "--once --replay /nowhere").ending, 1);
  EXPECT_EQ(run("trn1.2xlarge", "--replay a --record b").ending, 2);
  EXPECT_EQ(run("trn1.2xlarge", "--interval 1").ending, 1);  // no terminal, but a good interval
  for (const char* wrong : {"--interval 0", "--interval 1h", "--interval nan", "--width 0", "--bad",
                            "--iterations 0", "--palette pink", "10"}) {
    EXPECT_EQ(run("trn1.2xlarge", wrong).ending, 2) << wrong;
  }
}

}  // namespace
}  // namespace neuron::top
