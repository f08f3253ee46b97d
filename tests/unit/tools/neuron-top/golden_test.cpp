// SPDX-License-Identifier: Apache-2.0
// All that neuron-top shows of one host, to the letter: panes, tabs and sizes.
#include "tests/unit/tools/golden.h"

#include "tests/unit/tools/rich_host.h"
#include "tools/neuron-top/model/table.h"
#include "tools/neuron-top/screen/layout.h"

namespace neuron::top {
namespace {

using testing::expect_golden;
using testing::rich_host;

struct Shown {
  telemetry::Snapshot before = rich_host(0), now = rich_host(2);
  Interval interval = compare(&before, now);
  std::string text(const State& state, int width, int height, bool unicode = true) const {
    const View view = build_view(now, interval, state, {0.1, 0.25, 0.5, 0.9});
    return lay_out(view, {width, height, unicode}).text() + "----\n";
  }
};

TEST(TopOutput, OfEachPaneIsAsBefore) {
  const Shown shown;
  std::string text;
  for (const Pane pane : {Pane::kMemory, Pane::kProcesses, Pane::kEngines}) {
    State state;
    state.pane = pane;
    text += shown.text(state, 120, 40) + shown.text(state, 80, 24, false);
    state.flops = true;
    state.models_open = true;
    text += shown.text(state, 160, 50);
  }
  expect_golden("top_panes.txt", text);
}

TEST(TopOutput, OfEachSizeIsAsBefore) {
  const Shown shown;
  std::string text;
  for (const auto& [width, height] :
       {std::pair{20, 5}, {40, 12}, {60, 16}, {80, 24}, {100, 30}, {132, 43}, {200, 60}}) {
    text += shown.text({}, width, height);
  }
  expect_golden("top_sizes.txt", text);
}

TEST(TopOutput, OfOneProcessAFilterAndHelpIsAsBefore) {
  const Shown shown;
  State state;
  state.tab = 201;
  std::string text = shown.text(state, 120, 40);
  state.tab = 0;
  state.pane = Pane::kProcesses;
  state.filter = "RESNET";
  text += shown.text(state, 120, 40);
  state.filter = "";
  for (int sort = 0; sort < static_cast<int>(Sort::kCount); ++sort) {
    state.sort = static_cast<Sort>(sort);
    state.reversed = sort % 2 == 1;
    text += shown.text(state, 100, 30);
  }
  state.help = true;
  text += shown.text(state, 100, 40);
  state.help = false;
  state.paused = true;
  state.history = false;
  text += shown.text(state, 100, 30);
  expect_golden("top_states.txt", text);
}

TEST(TopOutput, OfRecordsIsAsBefore) {
  const Shown shown;
  const View view = build_view(shown.now, shown.interval, {}, {});
  const tools::Records records = build_records(view, shown.now, shown.interval);
  expect_golden("top_records.txt", render(records, tools::Format::kCsv, {}) +
                                       render(records, tools::Format::kJson, {}) +
                                       render(records, tools::Format::kText, {}));
}

}  // namespace
}  // namespace neuron::top
