// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/model/state.h"

#include <algorithm>

#include "tools/neuron-top/model/view.h"

namespace neuron::top {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortest{100}, kLongest{60'000};
constexpr long kPage = 10;
constexpr size_t kLongestFilter = 64;

void move(State& state, const View& view, long by) {
  const std::vector<std::string> keys = row_keys(view);
  if (keys.empty()) return;
  const auto found = std::find(keys.begin(), keys.end(), state.selected);
  const long last = static_cast<long>(keys.size()) - 1;
  // Without a selection the first step goes to the first row.
  const long at = found == keys.end() ? (by > 0 ? -1 : 1) : found - keys.begin();
  state.selected = keys[static_cast<size_t>(std::clamp(at + by, 0L, last))];
}

void fold(State& state, const TreeRow& row) {
  // Devices and cores are open until closed; models the other way round.
  std::set<std::string>& closed = state.folded;
  std::set<std::string>& opened = state.unfolded;
  if (row.open) {
    opened.erase(row.key);
    closed.insert(row.key);
  } else {
    closed.erase(row.key);
    opened.insert(row.key);
  }
}

void fold_selected(State& state, const View& view) {
  for (const TreeRow& row : view.tree) {
    if (row.key == state.selected && row.branch) fold(state, row);
  }
}

// Closes the whole tree if any of it is open, else opens it.
void fold_all(State& state, const View& view) {
  const bool any = std::any_of(view.tree.begin(), view.tree.end(),
                               [](const TreeRow& row) { return row.branch && row.open; });
  state.unfolded.clear();
  state.models_open = !any;
  if (any) {
    for (const TreeRow& row : view.tree) {
      if (row.branch) state.folded.insert(row.key);
    }
  } else {
    state.folded.clear();
  }
}

void step_tab(State& state, const View& view, long by) {
  if (view.tabs.empty()) return;
  long at = 0;
  for (size_t i = 0; i < view.tabs.size(); ++i) {
    if (view.tabs[i].pid == state.tab) at = static_cast<long>(i);
  }
  const long count = static_cast<long>(view.tabs.size());
  state.tab = view.tabs[static_cast<size_t>((at + by + count) % count)].pid;
}

Command type(State& state, Key key, char character) {
  if (key == Key::kEnter) {
    state.typing = false;
  } else if (key == Key::kEscape) {
    state.typing = false;
    state.filter.clear();
  } else if (key == Key::kBackspace) {
    if (!state.filter.empty()) state.filter.pop_back();
  } else if (key == Key::kCharacter && character >= ' ' && character <= '~' &&
             state.filter.size() < kLongestFilter) {
    state.filter += character;
  }
  return Command::kNothing;
}

Command press_character(State& state, char character, const View& view) {
  switch (character) {
    case 'q':
      return Command::kQuit;
    case 'x':
      fold_all(state, view);
      break;
    case 'a':
      step_tab(state, view, -1);
      break;
    case 'd':
      step_tab(state, view, 1);
      break;
    case 'f':
    case 'F':
      state.flops = !state.flops;
      break;
    case 'm':
      state.pane = Pane::kMemory;
      break;
    case 'p':
      state.pane = Pane::kProcesses;
      break;
    case 'e':
      state.pane = Pane::kEngines;
      break;
    case 's':
      state.sort =
          static_cast<Sort>((static_cast<int>(state.sort) + 1) % static_cast<int>(Sort::kCount));
      break;
    case 'r':
      state.reversed = !state.reversed;
      break;
    case '/':
      state.typing = true;
      break;
    case 'g':
      state.history = !state.history;
      break;
    case ' ':
      state.paused = !state.paused;
      break;
    case '?':
    case 'h':
      state.help = !state.help;
      break;
    case '+':
      state.interval = std::min(kLongest, state.interval * 2);
      break;
    case '-':
      state.interval = std::max(kShortest, state.interval / 2);
      break;
    case ',':
      return Command::kStepBack;
    case '.':
      return Command::kStepForward;
    default:
      if (character >= '1' && character <= '9') {
        const size_t index = static_cast<size_t>(character - '1');
        if (index < view.tabs.size()) state.tab = view.tabs[index].pid;
      }
  }
  return Command::kNothing;
}

}  // namespace

const char* name(Sort sort) {
  switch (sort) {
    case Sort::kUtilization:
      return "utilization";
    case Sort::kDeviceMemory:
      return "device memory";
    case Sort::kHostMemory:
      return "host memory";
    default:
      return "pid";
  }
}

Command press(State& state, Key key, char character, const View& view) {
  if (state.typing) return type(state, key, character);
  // Any key but the one to leave closes the help.
  if (state.help && !(key == Key::kCharacter && character == 'q')) {
    state.help = false;
    return Command::kNothing;
  }
  switch (key) {
    case Key::kCharacter:
      return press_character(state, character, view);
    case Key::kUp:
      move(state, view, -1);
      break;
    case Key::kDown:
      move(state, view, 1);
      break;
    case Key::kPageUp:
      move(state, view, -kPage);
      break;
    case Key::kPageDown:
      move(state, view, kPage);
      break;
    case Key::kHome:
      move(state, view, -static_cast<long>(row_keys(view).size()));
      break;
    case Key::kEnd:
      move(state, view, static_cast<long>(row_keys(view).size()));
      break;
    case Key::kLeft:
    case Key::kRight:
      for (const TreeRow& row : view.tree) {
        if (row.key == state.selected && row.branch && row.open == (key == Key::kLeft)) {
          fold(state, row);
        }
      }
      break;
    case Key::kEnter:
      fold_selected(state, view);
      break;
    case Key::kTab:
      state.pane = static_cast<Pane>((static_cast<int>(state.pane) + 1) % 3);
      break;
    case Key::kEscape:
      state.filter.clear();
      break;
    default:
      break;
  }
  return Command::kNothing;
}

void keep_selection(State& state, const View& before, const View& now) {
  if (before.pane != now.pane) return;
  const std::vector<std::string> old_keys = row_keys(before), keys = row_keys(now);
  const auto has = [&](const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const auto found = std::find(old_keys.begin(), old_keys.end(), state.selected);
  if (found == old_keys.end() || keys.empty() || has(state.selected)) return;
  std::string parent = state.selected;
  while (!has(parent)) {
    const size_t end = parent.rfind('/');
    if (end == std::string::npos) {
      parent = keys[std::min(keys.size() - 1, static_cast<size_t>(found - old_keys.begin()))];
      break;
    }
    parent.resize(end);
  }
  state.selected = parent;
}

void click(State& state, const Target& target, const View& view) {
  switch (target.kind) {
    case Target::Kind::kTab:
      state.tab = target.tab;
      break;
    case Target::Kind::kPane:
      state.pane = target.pane;
      break;
    case Target::Kind::kRow:
      // The second click on a row folds it.
      if (state.selected == target.row) {
        fold_selected(state, view);
      } else {
        state.selected = target.row;
      }
  }
}

}  // namespace neuron::top
