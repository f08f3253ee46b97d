// SPDX-License-Identifier: Apache-2.0
//
// The user's choices in neuron-top, and how keys and the mouse change them.
//
// Callers: the main loop, one thread. Values; no terminal is needed. Cannot fail: a key without a
// meaning does nothing.
#ifndef TOOLS_NEURON_TOP_MODEL_STATE_H
#define TOOLS_NEURON_TOP_MODEL_STATE_H

#include <chrono>
#include <set>
#include <string>

namespace neuron::top {

enum class Pane { kMemory, kProcesses, kEngines };
enum class Sort { kPid, kUtilization, kDeviceMemory, kHostMemory, kCount };
const char* name(Sort sort);

struct State {
  int tab = 0;  // pid; 0: all
  Pane pane = Pane::kMemory;
  std::string selected;            // key of a row of the pane
  std::set<std::string> folded;    // rows that are open by default
  std::set<std::string> unfolded;  // rows that are closed by default
  bool models_open = false;        // by default: the entire tree was expanded
  bool flops = false, help = false, paused = false, history = true, reversed = false;
  Sort sort = Sort::kPid;
  std::string filter;
  bool typing = false;  // into the filter
  std::chrono::milliseconds interval{1000};
};

enum class Key {
  kNone,
  kCharacter,  // the character itself is beside it
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kTab,
};

// The action of the loop beside drawing.
enum class Command { kNothing, kQuit, kStepBack, kStepForward };

struct View;

// `view` is the view that was shown when the key was pressed.
Command press(State& state, Key key, char character, const View& view);

// Things that a click may hit; the layout says where they are.
struct Target {
  enum class Kind { kTab, kRow, kPane } kind = Kind::kRow;
  int tab = 0;
  std::string row;
  Pane pane = Pane::kMemory;
};
void click(State& state, const Target& target, const View& view);

// If the selected row has disappeared, selects its parent, or else the row in its place.
void keep_selection(State& state, const View& before, const View& now);

}  // namespace neuron::top

#endif
