// SPDX-License-Identifier: Apache-2.0
// The view of a host, and what keys and clicks do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "tests/unit/tools/neuron-top/snapshots.h"
#include "tools/neuron-top/model/table.h"

namespace neuron::top {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A person before the screen.
struct Person {
  Snapshot host = busy_host(10);
  State state;
  View view() const { return view_of(host, state); }
  Command press(char character) { return top::press(state, Key::kCharacter, character, view()); }
  Command press(Key key) { return top::press(state, key, 0, view()); }
  void type(const std::string& text) {
    for (const char c : text) press(c);
  }
};

TEST(TopTree, HasParentsThatAreTheSumsOfTheirChildren) {
  Person person;
  person.press('x');
  person.press('x');  // all open, models too
  const View view = person.view();
  for (size_t i = 0; i < view.tree.size(); ++i) {
    const TreeRow& row = view.tree[i];
    if (!row.branch || !row.open) continue;
    uint64_t device = 0, host = 0;
    bool any = false;
    for (size_t j = i + 1; j < view.tree.size() && view.tree[j].depth > row.depth; ++j) {
      if (view.tree[j].depth != row.depth + 1) continue;
      any = true;
      device += view.tree[j].device_bytes;
      host += view.tree[j].host_bytes;
    }
    if (!any) continue;
    EXPECT_EQ(row.device_bytes, device) << row.key;
    EXPECT_EQ(row.host_bytes, host) << row.key;
  }
  EXPECT_EQ(row_of(view.tree, "d0")->device_bytes, 10u << 20);
  EXPECT_EQ(row_of(view.tree, "d0")->host_bytes, 8192u);
  EXPECT_EQ(row_of(view.tree, "d1")->device_bytes, 1u << 20);
  EXPECT_EQ(row_of(view.tree, "d0/c0/100:10001:0/Model Code")->device_bytes, 2u << 20);
  EXPECT_EQ(row_of(view.tree, "d0/c0/Tensors")->device_bytes, 2u << 20);  // beside the model
}

TEST(TopTree, KeepsTheSumsWhenModelsClaimMoreThanTheirCore) {
  Person person;
  person.host.processes[0].models[0].core.tensors = 100u << 20;
  EXPECT_EQ(row_of(person.view().tree, "d0/c0")->device_bytes, 102u << 20);
}

TEST(TopTree, FoldsWithEnterAndArrowsAndOpensTheEntireTreeWithX) {
  Person person;
  const size_t all = person.view().tree.size();
  person.press(Key::kDown);
  EXPECT_EQ(person.state.selected, "d0");
  person.press(Key::kLeft);
  const size_t without = person.view().tree.size();
  EXPECT_LT(without, all);
  person.press(Key::kLeft);
  EXPECT_EQ(person.view().tree.size(), without);
  person.press(Key::kRight);
  EXPECT_EQ(person.view().tree.size(), all);
  person.press(Key::kEnter);
  EXPECT_EQ(person.view().tree.size(), without);
  person.press('x');
  EXPECT_EQ(person.view().tree.size(), 2u);
  person.press('x');
  EXPECT_GT(person.view().tree.size(), all);  // with what the models hold
}

TEST(TopTree, DimsModelsThatDoNotRunAndNamesThemWithTheirId) {
  Person person;
  person.host.processes[0].models[1].running = false;
  const View view = person.view();
  EXPECT_FALSE(row_of(view.tree, "d0/c0/100:10001:0")->dimmed);
  EXPECT_TRUE(row_of(view.tree, "d0/c1/100:10002:0")->dimmed);
  EXPECT_EQ(row_of(view.tree, "d0/c1/100:10002:0")->model_id, "10002");
}

TEST(TopTree, KeepsTheParentsOfWhatPassesTheFilter) {
  Person person;
  person.state.filter = "RESNET";
  std::vector<std::string> keys;
  for (const TreeRow& row : person.view().tree) keys.push_back(row.key);
  EXPECT_THAT(keys, ElementsAre("d0", "d0/c0", "d0/c0/100:10001:0", "d0/c1", "d0/c1/100:10002:0"));
  person.state.filter = "no such thing";
  EXPECT_TRUE(person.view().tree.empty());
}

TEST(TopTree, ToleratesCoresAndDevicesThatAreNotThere) {
  Person person;
  add_core(person.host.processes[0], 7, 900).memory.tensors = 1;
  person.host.processes[0].models[0].physical_core = 4'000'000'000u;
  person.host.devices[1].logical_size = 4'000'000'000u;
  EXPECT_EQ(person.view().devices[1].cores.size(), 1u);
}

TEST(TopTabs, LetTheSelectedProcessAloneCountInAllSections) {
  Person person;
  View view = person.view();
  ASSERT_EQ(view.tabs.size(), 3u);
  EXPECT_EQ(view.tabs[0].label, "all");
  EXPECT_EQ(view.tabs[1].label, "first");
  EXPECT_EQ(view.device.total(), 11u << 20);
  EXPECT_EQ(view.cores_used, 3u);
  person.press('3');
  view = person.view();
  EXPECT_TRUE(view.tabs[2].active);
  EXPECT_EQ(view.device.total(), 1u << 20);
  EXPECT_EQ(view.cores_used, 1u);
  EXPECT_EQ(row_of(view.tree, "d0")->device_bytes, 0u);
  EXPECT_EQ(view.processes.size(), 1u);
}

TEST(TopTabs, GoRoundWithAAndDAndIgnoreNumbersWithoutATab) {
  Person person;
  person.press('d');
  EXPECT_EQ(person.state.tab, 100);
  person.press('a');
  person.press('a');
  EXPECT_EQ(person.state.tab, 200);
  person.press('d');
  EXPECT_EQ(person.state.tab, 0);
  person.press('9');
  EXPECT_EQ(person.state.tab, 0);
}

TEST(TopTabs, SayThatTheirProcessHasEnded) {
  Person person;
  person.press('2');
  person.host.processes.erase(person.host.processes.begin());
  EXPECT_THAT(person.view().notes, Contains(HasSubstr("process 100 has ended")));
  person.press('d');
  EXPECT_EQ(person.state.tab, 200);
}

TEST(TopTabs, LeaveOutProcessesThatOnlyLook) {
  Person person;
  add_process(person.host, 300);
  EXPECT_EQ(person.view().tabs.size(), 3u);
  EXPECT_EQ(person.view().processes.size(), 2u);
  person.press('p');
  EXPECT_EQ(person.view().processes.size(), 3u);
}

TEST(TopKeys, SortProcessesByEachColumnAndReverse) {
  Person person;
  person.host.processes[1].host_memory.tensors = 5;
  Interval interval;
  interval.activities[{200, 1, 0}].busy = 0.9;
  const auto pids = [&] {
    std::vector<int> out;
    for (const ProcessRow& row : view_of(person.host, person.state, interval).processes) {
      out.push_back(row.pid);
    }
    return out;
  };
  EXPECT_THAT(pids(), ElementsAre(100, 200));
  person.press('s');  // utilization
  EXPECT_THAT(pids(), ElementsAre(200, 100));
  person.press('r');
  EXPECT_THAT(pids(), ElementsAre(100, 200));
  person.press('r');
  person.press('s');  // device memory
  EXPECT_THAT(pids(), ElementsAre(100, 200));
  person.press('s');  // host memory
  EXPECT_THAT(pids(), ElementsAre(200, 100));
  person.press('s');
  EXPECT_EQ(person.state.sort, Sort::kPid);
}

TEST(TopKeys, TypeAFilterWithoutBeingCommands) {
  Person person;
  person.press('p');
  person.press('/');
  person.type("qsecondx");
  person.press(Key::kBackspace);
  EXPECT_TRUE(person.view().typing);
  EXPECT_EQ(person.state.filter, "qsecond");
  EXPECT_TRUE(person.view().processes.empty());
  person.press(Key::kEscape);
  EXPECT_EQ(person.view().processes.size(), 2u);
  person.press('/');
  person.type("SECOND");
  person.press(Key::kEnter);
  EXPECT_THAT(person.view().status, HasSubstr("filter: SECOND"));
  ASSERT_EQ(person.view().processes.size(), 1u);
  EXPECT_EQ(person.press('q'), Command::kQuit);
}

TEST(TopKeys, HaveTheMeaningsOfTheOriginal) {
  Person person;
  EXPECT_EQ(person.press('q'), Command::kQuit);
  person.press('f');
  EXPECT_TRUE(person.view().flops);
  person.press('F');
  EXPECT_FALSE(person.view().flops);
  person.press(' ');
  EXPECT_EQ(person.view().status, "paused");
  person.press(' ');
  EXPECT_EQ(person.view().status, "");
  person.press('g');
  EXPECT_FALSE(person.view().show_history);
  person.press('g');
  EXPECT_TRUE(person.view().show_history);
  person.press(' ');
  EXPECT_EQ(person.press(','), Command::kStepBack);
  EXPECT_EQ(person.press('.'), Command::kStepForward);
  const State before = person.state;
  person.press('~');
  person.press(Key::kNone);
  EXPECT_EQ(person.view().status, view_of(person.host, before).status);
}

TEST(TopKeys, HalveAndDoubleTheIntervalWithinItsBounds) {
  Person person;
  for (int i = 0; i < 20; ++i) person.press('-');
  EXPECT_EQ(person.state.interval, std::chrono::milliseconds(100));
  for (int i = 0; i < 20; ++i) person.press('+');
  EXPECT_EQ(person.state.interval, std::chrono::seconds(60));
}

TEST(TopKeys, CloseTheHelpWithAnyKeyButLeaveWithQ) {
  Person person;
  person.press('?');
  EXPECT_TRUE(person.view().help);
  person.press('x');
  EXPECT_FALSE(person.view().help);
  EXPECT_EQ(person.state.folded.size(), 0u);
  person.press('?');
  EXPECT_EQ(person.press('q'), Command::kQuit);
}

TEST(TopSelection, StaysOnItsRowsFromTheFirstToTheLast) {
  Person person;
  person.press(Key::kUp);
  EXPECT_EQ(person.state.selected, "d0");
  person.press(Key::kEnd);
  EXPECT_EQ(person.state.selected, person.view().tree.back().key);
  person.press(Key::kPageDown);
  EXPECT_EQ(person.state.selected, person.view().tree.back().key);
  EXPECT_TRUE(person.view().devices[1].selected);
  EXPECT_FALSE(person.view().devices[0].selected);
  person.press(Key::kHome);
  EXPECT_EQ(person.state.selected, "d0");
}

TEST(TopSelection, GoesToTheParentOrTheNextRowWhenItsOwnVanishes) {
  Person person;
  person.state.selected = "d0/c1/100:10002:0";
  View before = person.view();
  person.host.processes.erase(person.host.processes.begin());
  keep_selection(person.state, before, person.view());
  EXPECT_EQ(person.state.selected, "d0/c1");
  person.press('p');
  person.host = busy_host(10);
  person.state.selected = "p100";
  before = person.view();
  person.host.processes.erase(person.host.processes.begin());
  keep_selection(person.state, before, person.view());
  EXPECT_EQ(person.state.selected, "p200");
  before = person.view();
  person.host.processes.clear();
  keep_selection(person.state, before, person.view());
  person.press(Key::kDown);  // nothing is there to be selected
  EXPECT_TRUE(row_keys(person.view()).empty());
}

TEST(TopSelection, FoldsARowThatIsClickedTwice) {
  Person person;
  Target target;
  target.row = "d1";
  click(person.state, target, person.view());
  EXPECT_EQ(person.state.selected, "d1");
  EXPECT_TRUE(row_of(person.view().tree, "d1")->open);
  click(person.state, target, person.view());
  EXPECT_FALSE(row_of(person.view().tree, "d1")->open);
  target.kind = Target::Kind::kTab;
  target.tab = 200;
  click(person.state, target, person.view());
  EXPECT_EQ(person.state.tab, 200);
  target.kind = Target::Kind::kPane;
  target.pane = Pane::kEngines;
  click(person.state, target, person.view());
  EXPECT_EQ(person.view().pane, Pane::kEngines);
  EXPECT_EQ(person.view().engines.size(), 4u);
}

TEST(TopView, CarriesWhatIsWrongAsNotesAndBadges) {
  Person person;
  person.host.devices[0].cores[1].hung_engines = {"pe"};
  person.host.devices[1].error = "it did not\x1b[2Janswer";
  person.host.processes[1].error = "its record is broken";
  const View view = person.view();
  EXPECT_EQ(view.devices[0].badge, "hung");
  EXPECT_EQ(view.devices[1].badge, "no answer");
  EXPECT_THAT(view.notes, ElementsAre("device 0 core 1: pe hangs", "device 1: it did not [2Janswer",
                                      "process 200: its record is broken"));
  person.host.devices[1].state = telemetry::DeviceState::kResetting;
  EXPECT_EQ(person.view().devices[1].badge, "resetting");
}

TEST(TopView, NamesALinkThatIsDownOnceAndAtBothOfItsDevices) {
  Snapshot host = busy_host(10, 4);
  for (unsigned index = 0; index < 4; ++index) {
    host.devices[index].links = {{.device = (index + 1) % 4}, {.device = (index + 3) % 4}};
  }
  EXPECT_THAT(view_of(host).notes, ElementsAre());
  EXPECT_EQ(view_of(host).devices[2].badge, "");
  host.devices[2].links[0].up = host.devices[3].links[1].up = false;
  host.processes[1].error = "its record is broken";
  View view = view_of(host);
  EXPECT_THAT(view.notes,
              ElementsAre("Links that are down: 2 - 3", "process 200: its record is broken"));
  EXPECT_EQ(view.devices[1].badge, "");
  EXPECT_EQ(view.devices[2].badge, "link down");
  EXPECT_EQ(view.devices[3].badge, "link down");
  EXPECT_EQ(view.devices[3].links_down, (std::vector<unsigned>{2}));
  // The other end of the second one did not answer.
  host.devices[3].links[0].up = false;
  host.devices[0] = {.index = 0, .error = "it does not answer"};
  view = view_of(host);
  EXPECT_EQ(view.notes[1], "Links that are down: 0 - 3, 2 - 3");
  EXPECT_EQ(view.devices[0].badge, "no answer");
  EXPECT_EQ(view.devices[3].badge, "links down");
  // What keeps a device from working at all comes first.
  host.devices[2].state = telemetry::DeviceState::kResetting;
  host.devices[3].cores[0].hung_engines = {"sp"};
  view = view_of(host);
  EXPECT_EQ(view.devices[2].badge, "resetting");
  EXPECT_EQ(view.devices[3].badge, "hung");
}

TEST(TopView, NamesSizesAsTheOriginalDoes) {
  EXPECT_EQ(size_text(0), "0.0B");
  EXPECT_EQ(size_text(4096), "4.0KB");
  EXPECT_EQ(size_text(441.8 * 1024 * 1024), "441.8MB");
  EXPECT_EQ(size_text(1.7 * 1024 * 1024 * 1024), "1.7GB");
}

TEST(TopView, TitlesTheHostWithAndWithoutAName) {
  Snapshot host = host_at(1);
  EXPECT_EQ(view_of(host).title, "neuron-top 2.0.0 running on i-0123 (trn1.32xlarge)");
  host.instance = {};
  EXPECT_EQ(view_of(host).title, "neuron-top 2.0.0 running on this host");
}

TEST(TopRecords, HaveARecordForEachCoreInEveryFormat) {
  Person person;
  person.host.processes[0].command = "serve, \"x\"";
  const tools::Records records = build_records(person.view(), person.host, {});
  ASSERT_EQ(records.rows.size(), 4u);
  for (const auto& row : records.rows) ASSERT_EQ(row.size(), records.columns.size());
  const auto document = boost::json::parse(tools::render(records, tools::Format::kJson, {}));
  EXPECT_EQ(document.at("schema"), "neuron-top");
  EXPECT_EQ(document.at("cores").at(2).at("neuron_device"), 1);
  EXPECT_EQ(document.at("cores").at(2).at("pids").at(0), 200);
  EXPECT_EQ(document.at("cores").at(0).at("memory_used_bytes"), 5u << 20);
  EXPECT_EQ(document.at("processes").at(0).at("command"), "serve, \"x\"");
  const std::string csv = tools::render(records, tools::Format::kCsv, {});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  const std::string lines = tools::render(records, tools::Format::kNdjson, {});
  const auto line = boost::json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(line.at("time_seconds").to_number<double>(), 1'700'000'010.0);
}

TEST(TopRecords, HaveTheNeighboursWhoseLinkIsDownInEachCoreOfADevice) {
  Person person;
  person.host.devices[1].links = {
      {.device = 0, .up = false}, {.device = 5}, {.device = 3, .up = false}};
  const tools::Records records = build_records(person.view(), person.host, {});
  const auto document = boost::json::parse(tools::render(records, tools::Format::kJson, {}));
  const auto& cores = document.at("cores").as_array();
  ASSERT_EQ(cores.size(), 4u);
  EXPECT_EQ(cores[1].at("links_down"), boost::json::array());
  EXPECT_EQ(cores[2].at("links_down"), boost::json::array({0, 3}));
  EXPECT_EQ(cores[3].at("links_down"), boost::json::array({0, 3}));
  const std::string csv = tools::render(records, tools::Format::kCsv, {});
  EXPECT_NE(csv.find(",links_down\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",0 3\n"), std::string::npos) << csv;
}

}  // namespace
}  // namespace neuron::top
