// SPDX-License-Identifier: Apache-2.0
// Canvases and layouts of all sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/tools/neuron-top/snapshots.h"
#include "tools/neuron-top/screen/layout.h"

namespace neuron::top {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const View& view, int width, int height, bool unicode = true) {
  return lay_out(view, {width, height, unicode}).text();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

View crowded_view() {
  View view = view_of(busy_host(10, 16));
  view.devices[0].cores[0].activity.busy = 0.5681;
  view.history = {0.1, 0.9};
  return view;
}

// The line that begins with `heading`, empty if there is none.
std::string line_of(const View& view, int width, const std::string& heading) {
  for (const std::string& line : lines_of(text_of(view, width, 40))) {
    if (line.rfind(heading, 0) == 0) return line;
  }
  return "";
}

TEST(TopLayout, ShowsEachNumberWithItsUnitOrNotAtAll) {
  View view = crowded_view();
  view.total.executions = 123456.7;
  view.total.dma_bytes = view.total.link_bytes = 27.2e9;
  view.device = {};
  view.device.tensors = view.device.constants = view.device.model_code =
      view.device.model_shared_scratchpad = view.device.runtime_memory = 1'234'567'890;
  for (int width = 60; width <= 200; ++width) {
    for (const char* heading : {"Engines ", "Host Used Memory", "Device Used Memory"}) {
      const std::string line = line_of(view, width, heading);
      EXPECT_THAT(line, ::testing::AnyOf(::testing::EndsWith("B"), ::testing::EndsWith("/s")))
          << width << ": " << line;
    }
    EXPECT_THAT(line_of(view, width, "Engines "), ::testing::EndsWith("executions 123456.7/s"))
        << width;
  }
  EXPECT_THAT(line_of(view, 200, "Device Used"), HasSubstr("Model Scratchpad: 1.1GB"));
  EXPECT_THAT(line_of(view, 80, "Device Used"), Not(HasSubstr("Model Scratchpad")));
}

TEST(TopLayout, ExplainsTheTwoKindsOfMemoryOfDevices) {
  View view = crowded_view();
  EXPECT_THAT(line_of(view, 120, "Errors"), HasSubstr("HBM in use "));
  view.help = true;
  const std::string help = text_of(view, 80, 24);
  EXPECT_THAT(help, HasSubstr("Device Used Memory: what the runtimes of the processes"));
  EXPECT_THAT(help, HasSubstr("HBM in use: all that the driver has given out"));
}

TEST(TopCanvas, CutsWhatLiesOutside) {
  Canvas canvas(5, 2);
  EXPECT_EQ(canvas.put(3, 0, "abcdef"), 9);
  canvas.put(-2, 1, "xyz");
  canvas.put(0, 2, "never");
  canvas.put(0, -1, "never");
  canvas.paint_line(9, Ink::kBad);
  EXPECT_EQ(canvas.text(), "   ab\nz\n");
  EXPECT_EQ(canvas.put(0, 0, "abc", Ink::kPlain, 2), 2);
  EXPECT_EQ(Canvas(-3, -3).text(), "");
}

TEST(TopCanvas, GivesWideCharactersTwoColumnsAndMarksNone) {
  Canvas canvas(6, 1);
  EXPECT_EQ(canvas.put(0, 0, "漢e\xcc\x81字"), 5);
  EXPECT_EQ(canvas.at(1, 0).character, Canvas::kSecondHalf);
  EXPECT_EQ(canvas.text(), "漢e字\n");
  canvas.put(1, 0, "x");  // half of it is overwritten
  EXPECT_EQ(canvas.text(), " xe字\n");
  canvas.put(5, 0, "漢");  // no room for its second half
  EXPECT_EQ(canvas.at(5, 0).character, U'?');
  EXPECT_EQ(canvas.put(0, 0, "漢漢", Ink::kPlain, 3), 2);
  canvas.make_ascii();
  EXPECT_EQ(canvas.text(), "??e???\n");
}

TEST(TopCanvas, ShowsNothingThatSteersATerminal) {
  Canvas canvas(40, 1);
  // An escape, the single-byte introducer of sequences, a line end of Unicode, a turn of direction.
  canvas.put(0, 0,
             "a\x1b[2Jb\xc2\x9b"
             "c\xe2\x80\xa8"
             "d\xe2\x80\xae"
             "e");
  EXPECT_EQ(canvas.text(), "a [2Jb cde\n");
}

TEST(TopCanvas, ShowsBytesThatAreNoTextAsQuestionMarks) {
  for (const char* bytes : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xe6\xbc", "\xc3(", "\xf0\x80\x80\x80"}) {
    Canvas canvas(8, 1);
    canvas.put(0, 0, bytes);
    EXPECT_EQ(canvas.at(0, 0).character, U'?');
  }
}

TEST(TopCanvas, FindsTheTargetUnderAClick) {
  Canvas canvas(10, 2);
  Area area{2, 1, 3, {}};
  area.target.row = "d0";
  canvas.add_area(area);
  EXPECT_EQ(canvas.target_at(1, 1), nullptr);
  ASSERT_NE(canvas.target_at(4, 1), nullptr);
  EXPECT_EQ(canvas.target_at(4, 1)->row, "d0");
  EXPECT_EQ(canvas.target_at(5, 1), nullptr);
  EXPECT_EQ(canvas.target_at(2, 0), nullptr);
}

TEST(TopLayout, HasAllSectionsOnAnEightyColumnTerminal) {
  const std::vector<std::string> lines = lines_of(text_of(view_of(busy_host(10)), 80, 24));
  ASSERT_EQ(lines.size(), 24u);
  const std::string text = text_of(view_of(busy_host(10)), 80, 24);
  EXPECT_THAT(lines[0], HasSubstr("neuron-top 2.0.0 running on i-0123 (trn1.32xlarge)"));
  for (const char* section :
       {"NeuronCore v2 Utilization (Avg: 0.00%)", "System vCPU Usage", "Runtime vCPU Usage",
        "Memory Usage Summary", "Memory Usage Details", "[-] ND 0", "Device Memory"}) {
    EXPECT_THAT(text, HasSubstr(section));
  }
  EXPECT_THAT(lines[22], HasSubstr("Neuron Apps  >[1]:all<  [2]:first"));
  EXPECT_THAT(lines[23], HasSubstr("q: quit"));
}

TEST(TopLayout, HasABarForEachOfSixteenDevicesWhereThereIsRoom) {
  const std::string text = text_of(crowded_view(), 180, 62);
  EXPECT_THAT(text, HasSubstr("ND15"));
  EXPECT_THAT(text, HasSubstr("[56.81%]"));
  EXPECT_THAT(text, HasSubstr("NC1"));
  EXPECT_THAT(text, HasSubstr("History"));
  EXPECT_THAT(text, HasSubstr("Engines"));
  EXPECT_THAT(text, HasSubstr("d: previous/next tab"));
}

TEST(TopLayout, HasNoHistoryWhereNobodyWantsIt) {
  View view = crowded_view();
  view.show_history = false;
  EXPECT_THAT(text_of(view, 180, 62), Not(HasSubstr("History")));
}

TEST(TopLayout, AddsUpCorrectedErrorsOfBothKindsOfMemory) {
  View view = crowded_view();
  view.hardware.mem_ecc_corrected = 5;
  view.hardware.sram_ecc_corrected = 3;
  view.hardware.mem_ecc_uncorrected = 20;
  view.hardware.mem_ecc_repairable_uncorrected = 40;
  view.hardware.sram_ecc_uncorrected = 60;
  const std::string line = line_of(view, 120, "Errors");
  EXPECT_THAT(line, HasSubstr("ECC uncorrected: 120 "));
  EXPECT_THAT(line, HasSubstr(" corrected: 8 "));
}

TEST(TopLayout, PutsSixteenDevicesIntoAHeatMapWhereThereIsNot) {
  const std::string text = text_of(crowded_view(), 80, 24);
  EXPECT_THAT(text, HasSubstr("ND15"));
  EXPECT_THAT(text, Not(HasSubstr("[56.81%]")));
  EXPECT_THAT(text, HasSubstr("ND0  ▅▁"));
  EXPECT_THAT(text, HasSubstr("[-] ND 0"));
  EXPECT_THAT(text_of(crowded_view(), 80, 24, false), HasSubstr("ND0  50"));
}

TEST(TopLayout, ShowsUtilizationMemoryAndCoresOnTwentyColumnsByFive) {
  const std::vector<std::string> lines = lines_of(text_of(crowded_view(), 20, 5));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1], "0.00% 11.0MB 3/32 co");
  EXPECT_THAT(lines[2], HasSubstr("ND0"));
  EXPECT_EQ(lines[4], ">all< q:quit");
}

TEST(TopLayout, LeavesOutWholeColumnsWhereTheyDoNotFit) {
  View view = crowded_view();
  view.pane = Pane::kProcesses;
  EXPECT_THAT(text_of(view, 120, 24), HasSubstr("USER     TAG"));
  const std::string processes = text_of(view, 80, 24);
  for (const char* kept : {"PID USER", "CORES", "UTIL", "EXEC/s", "DEVICE MEM COMMAND"}) {
    EXPECT_THAT(processes, HasSubstr(kept)) << processes;
  }
  for (const char* left_out : {"TAG", "HOST M", "CPU CO"}) {
    EXPECT_THAT(processes, Not(HasSubstr(left_out))) << processes;
  }
  view.pane = Pane::kEngines;
  const std::string engines = text_of(view, 80, 24);
  EXPECT_THAT(text_of(view, 110, 24), HasSubstr("DMA        LINKS     FLOPS\n"));
  EXPECT_THAT(engines, HasSubstr("CC          DMA\n")) << engines;
}

TEST(TopLayout, StandsEverySizeAndPane) {
  View view = crowded_view();
  view.notes = {"a sentence that is longer than many a terminal is wide", "", " "};
  for (const bool help : {false, true}) {
    view.help = help;
    for (const Pane pane : {Pane::kMemory, Pane::kProcesses, Pane::kEngines}) {
      view.pane = pane;
      for (const int width : {-1, 0, 1, 2, 7, 20, 39, 40, 59, 80, 300}) {
        for (int height = -1; height < 40; ++height) {
          const std::string text = text_of(view, width, height);
          EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::max(0, height));
        }
      }
    }
  }
}

TEST(TopLayout, StandsHostsWithoutAnything) {
  Snapshot nothing;
  nothing.error = "no daemon answers at /run/neuron; start it";
  const View view = view_of(nothing);
  for (int height = 0; height < 30; ++height) text_of(view, 80, height);
  EXPECT_THAT(text_of(view, 80, 24), HasSubstr("no daemon answers at /run/neuron; start it"));
  EXPECT_THAT(text_of(view, 20, 5), HasSubstr("no daemon answers"));
}

TEST(TopLayout, IsAsciiAloneWhenAsked) {
  Snapshot host = busy_host(10);
  host.processes[0].tag = "漢字 é";
  host.processes[0].models[0].name = "modèle";
  View view = view_of(host);
  view.history = {0.5};
  for (const int height : {5, 24, 62}) {
    for (const char c : text_of(view, 120, height, false)) {
      ASSERT_LT(static_cast<unsigned char>(c), 128);
    }
  }
  EXPECT_THAT(text_of(view, 120, 40, true), HasSubstr("[2]:漢字 é"));
}

TEST(TopLayout, WrapsNotesAtWordsWithoutLosingOne) {
  View view = view_of(busy_host(10));
  view.notes = {"the daemon at its socket does not answer any more since it has ended; start it"};
  const std::vector<std::string> lines = lines_of(text_of(view, 50, 40));
  EXPECT_EQ(lines[1], "the daemon at its socket does not answer any more");
  EXPECT_EQ(lines[2], "since it has ended; start it");
}

TEST(TopLayout, SaysWhichLinksAreDownInWordsOnEightyColumnsAndAtTheRowsWhereTheyFit) {
  Snapshot host = busy_host(10, 4);
  host.devices[2].links = {{.device = 3, .up = false}};
  host.devices[3].links = {{.device = 2, .up = false}};
  const View view = view_of(host);
  EXPECT_EQ(lines_of(text_of(view, 80, 24))[1], "Links that are down: 2 - 3");
  EXPECT_THAT(line_of(view, 120, "ND2 "), ::testing::EndsWith("  link down"));
  EXPECT_THAT(line_of(view, 120, "ND1 "), Not(HasSubstr("down")));
  EXPECT_THAT(text_of(view, 40, 12), HasSubstr("Links that are down: 2 - 3"));
}

TEST(TopLayout, NamesEveryLinkOfAHostThatHasLostAllOnEightyColumns) {
  Snapshot host = busy_host(10, 16);
  for (telemetry::Device& device : host.devices) {
    device.links = {{.device = (device.index + 1) % 16, .up = false},
                    {.device = (device.index + 15) % 16, .up = false}};
  }
  const std::vector<std::string> lines = lines_of(text_of(view_of(host), 80, 24));
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_THAT(lines[1], ::testing::StartsWith("Links that are down: 0 - 1, 0 - 15, 1 - 2, "));
  EXPECT_THAT(lines[2], ::testing::EndsWith("14 - 15"));
  EXPECT_THAT(lines[3], ::testing::StartsWith("NeuronCore v2 Utilization"));
}

TEST(TopLayout, KeepsTheSelectedRowInTheWindow) {
  const Snapshot host = busy_host(10, 16);
  State state;
  state.selected = "d14/c1";
  const Canvas canvas = lay_out(view_of(host, state), {80, 24, true});
  EXPECT_THAT(canvas.text(), HasSubstr("[-] ND 14"));
  bool found = false;
  for (int y = 0; y < 24; ++y) {
    if (canvas.at(0, y).ink == Ink::kSelected) {
      found = true;
      ASSERT_NE(canvas.target_at(5, y), nullptr);
      EXPECT_EQ(canvas.target_at(5, y)->row, "d14/c1");
    }
  }
  EXPECT_TRUE(found);
}

TEST(TopLayout, KeepsTheActiveTabInTheFooter) {
  Snapshot host = host_at(10);
  for (int pid = 1; pid <= 30; ++pid) add_core(add_process(host, 1000 + pid), 0, 0);
  State state;
  state.tab = 1030;
  const Canvas canvas = lay_out(view_of(host, state), {80, 24, true});
  const std::vector<std::string> lines = lines_of(canvas.text());
  EXPECT_THAT(lines[22], HasSubstr(">[31]:1030<"));
  const Target* target = canvas.target_at(static_cast<int>(lines[22].find(">[31]")) + 2, 22);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->tab, 1030);
}

TEST(TopLayout, HasAPageOfKeysThatFitsEightyColumns) {
  View view = view_of(busy_host(10));
  view.help = true;
  const std::string text = text_of(view, 80, 24);
  for (const char* key : {"quit", "expand or collapse the entire tree", "1-9, a, d", "history"}) {
    EXPECT_THAT(text, HasSubstr(key));
  }
  EXPECT_THAT(text_of(view, 50, 24), HasSubstr("x  expand or collapse the entire tree"));
}

}  // namespace
}  // namespace neuron::top
