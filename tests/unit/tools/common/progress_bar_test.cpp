// SPDX-License-Identifier: Apache-2.0
// The line that tells how far something is: what it says, and where it is not shown.
#include "tools/common/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "driver/base/file_descriptor.h"
#include "tests/support/setting.h"

namespace neuron::tools {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Style kWide = {.color = false, .unicode = false, .width = 120};

TEST(ProgressText, SaysShareAmountAndTimeLeft) {
  EXPECT_EQ(progress_text(kWide, "loading m.neff",
                          {.done = 500'000'000, .total = 2'000'000'000, .unit = "B", .seconds = 2}),
            "loading m.neff  [######------------------]  25 %  0.5 of 2.0 GB  6 s left");
  EXPECT_EQ(progress_text(kWide, "compiling m.onnx",
                          {.done = 30, .total = 90, .unit = "nodes", .seconds = 300}),
            "compiling m.onnx  [########----------------]  33 %  30 of 90 nodes  10 min left");
}

TEST(ProgressText, SaysNoTimeWhereItKnowsNone) {
  EXPECT_EQ(progress_text(kWide, "a", {.done = 0, .total = 10, .unit = "x", .seconds = 5}),
            "a  [------------------------]  0 %  0 of 10 x");
  EXPECT_EQ(progress_text(kWide, "a", {.done = 10, .total = 10, .unit = "x", .seconds = 5}),
            "a  [########################]  100 %  10 of 10 x");
  EXPECT_EQ(progress_text(kWide, "a", {.done = 2'300'000, .total = 0, .seconds = 5}), "a  2 MB");
  EXPECT_THAT(progress_text(kWide, "a", {.done = 12, .total = 10, .unit = "x", .seconds = 5}),
              HasSubstr("100 %"))
      << "a file that grows";
}

TEST(ProgressText, StaysOnOneLine) {
  const Style narrow = {.color = false, .unicode = false, .width = 20};
  EXPECT_EQ(columns_of(progress_text(narrow, "loading \xC3\xA4\xC3\xA4\xC3\xA4.neff of a long name",
                                     {.done = 1, .total = 2})),
            19u);
}

// A terminal whose other end reads what is written to it.
struct PseudoTerminal {
  PseudoTerminal() {
    int ours = -1, theirs = -1;
    winsize size{};
    size.ws_col = 100;
    EXPECT_EQ(::openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
    reader.reset(ours);
    descriptor.reset(theirs);
  }
  std::string read() const {
    std::string text;
    for (;;) {
      pollfd ready{.fd = reader.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 100) <= 0) return text;
      char bytes[4096];
      const ssize_t got = ::read(reader.get(), bytes, sizeof(bytes));
      if (got <= 0) return text;
      text.append(bytes, static_cast<size_t>(got));
    }
  }
  base::FileDescriptor reader, descriptor;
};

TEST(ProgressBar, IsDrawnOnATerminalAndLeavesNothingThere) {
  const test::Setting term("TERM", "xterm");
  const PseudoTerminal terminal;
  {
    ProgressBar bar("loading \033[2Jm.neff", "B", terminal.descriptor.get(),
                    std::chrono::milliseconds(0));
    bar.show(1000, 4000);
    bar.show(2000, 4000);  // too early for another drawing
  }
  const std::string text = terminal.read();
  EXPECT_THAT(text, StartsWith("\rloading "));
  EXPECT_THAT(text, HasSubstr("25 %"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("50 %")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("\033[2J"))) << "a file's name commands no terminal";
  EXPECT_THAT(text, EndsWith("\033[K\r\033[K"));
}

TEST(ProgressBar, IsNotDrawnForWhatIsQuick) {
  const test::Setting term("TERM", "xterm");
  const PseudoTerminal terminal;
  {
    ProgressBar bar("loading", "B", terminal.descriptor.get());
    bar.show(1, 2);
  }
  EXPECT_EQ(terminal.read(), "");
}

TEST(ProgressBar, IsNotDrawnOnADumbTerminalOrIntoAPipe) {
  const PseudoTerminal terminal;
  {
    const test::Setting term("TERM", "dumb");
    ProgressBar bar("loading", "B", terminal.descriptor.get(), std::chrono::milliseconds(0));
    bar.show(1, 2);
  }
  EXPECT_EQ(terminal.read(), "");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::FileDescriptor reader(ends[0]);
  {
    const test::Setting term("TERM", "xterm");
    const base::FileDescriptor writer(ends[1]);
    ProgressBar bar("loading", "B", writer.get(), std::chrono::milliseconds(0));
    bar.show(1, 2);
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "the end, and nothing before it";
}

TEST(ProgressBar, CountsItsTimeAnewWhenSomethingBeginsAgain) {
  const test::Setting term("TERM", "xterm");
  const PseudoTerminal terminal;
  {
    ProgressBar bar("reading", "B", terminal.descriptor.get(), std::chrono::milliseconds(0));
    bar.show(99, 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    bar.show(1, 100);
  }
  // With the time of what came before it would be 25 s.
  EXPECT_THAT(terminal.read(), ::testing::ContainsRegex("1 %  0 of 0 kB  [01] s left"));
}

}  // namespace
}  // namespace neuron::tools
