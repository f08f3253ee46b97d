// SPDX-License-Identifier: Apache-2.0
// The page of keys.
#include "tools/neuron-top/screen/parts.h"

namespace neuron::top {
namespace {

struct Line {
  const char* keys;
  const char* text;
};
constexpr Line kLines[] = {
    {"q", "quit"},
    {"arrows, PgUp, PgDn, Home, End", "move the selection; left and right fold"},
    {"Enter", "expand or collapse the row"},
    {"x", "expand or collapse the entire tree"},
    {"1-9, a, d", "select a tab; the previous, the next"},
    {"f", "utilization in percent or teraflops"},
    {"m, p, e, Tab", "memory, processes, engines; the next pane"},
    {"s, r", "sort by the next column; reverse"},
    {"/", "filter the rows; Enter keeps it, Escape clears it"},
    {"+, -", "double or halve the interval"},
    {"space", "pause"},
    {", and .", "in a replay: back and forward"},
    {"g", "history on or off"},
    {"mouse", "click tabs, panes and rows; the wheel moves"},
};

}  // namespace

void draw_help(Canvas& canvas) {
  canvas.put(0, 1, "Keys", Ink::kHeading);
  int y = 2;
  for (const Line& line : kLines) {
    const int end = canvas.put(2, y, line.keys, Ink::kActive, 30);
    // In columns if both fit.
    canvas.put(canvas.width() >= 80 ? 34 : end + 2, y, line.text, Ink::kPlain);
    ++y;
  }
  for (const char* line :
       {"Bars: | users, + system. Cores: . free, ! hung. Any key goes back.",
        "Device Used Memory: what the runtimes of the processes say that they use.",
        "HBM in use: all that the driver has given out, also to itself and to others."}) {
    canvas.put(0, ++y, line, Ink::kFaint);
  }
}

}  // namespace neuron::top
