// SPDX-License-Identifier: Apache-2.0
//
// The terminal, through ncurses: shows canvases, returns keys and clicks.
//
// Callers: the main loop, one thread, one at a time in a process. Owns the screen from open() to
// its end, and then restores it. Fails: open() says what is wrong with the terminal.
#ifndef TOOLS_NEURON_TOP_TERMINAL_H
#define TOOLS_NEURON_TOP_TERMINAL_H

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tools/neuron-top/screen/canvas.h"

namespace neuron::top {

// Palettes by purpose; kNone is for terminals without colours, and for NO_COLOR.
enum class Palette { kStandard, kColorBlind, kNone };

struct Event {
  Key key = Key::kNone;
  char character = 0;
  bool resized = false, gone = false;        // gone: the terminal is no more
  std::optional<std::pair<int, int>> click;  // column, line
};

class Terminal {
 public:
  static std::unique_ptr<Terminal> open(Palette palette, bool mouse, std::string& error);
  ~Terminal();

  int width() const;
  int height() const;
  void show(const Canvas& canvas);
  // Waits for the next event, at most `most`, and less if a signal comes.
  Event wait(std::chrono::milliseconds most);

 private:
  Terminal() = default;
  struct Colors;
  std::unique_ptr<Colors> colors_;
};

}  // namespace neuron::top

#endif
