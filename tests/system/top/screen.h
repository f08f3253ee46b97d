// SPDX-License-Identifier: Apache-2.0
// A terminal of which the test sees what a person would: a pseudo-terminal with a program on it,
// and the picture that the program's bytes make.
//
// Callers: one thread. Owns: the program, which is killed and reaped by the destructor, and its end
// of the terminal. Nothing waits longer than test::kPatience. It knows what ncurses sends to an
// xterm.
#ifndef TESTS_SYSTEM_TOP_SCREEN_H
#define TESTS_SYSTEM_TOP_SCREEN_H

#include <string>
#include <vector>

#include "tests/support/process.h"

namespace neuron::top {

// The picture: lines of UTF-8 characters.
class Picture {
 public:
  void resize(int width, int height);
  void feed(const std::string& bytes);
  std::string text() const;
  std::string line(int y) const;
  int height() const { return height_; }
  // Of all that came: whether colours were asked for, and whether the screen was given back.
  bool colored() const { return colored_; }
  bool given_back() const { return given_back_; }

 private:
  void take(const std::string& character);
  void control(char code);
  void sequence(const std::string& parameters, char final);
  void erase(int x, int y, int count);
  void scroll(int from, int count);
  void advance();
  void back();

  int width_ = 0, height_ = 0, x_ = 0, y_ = 0;
  int top_ = 0, bottom_ = 0;  // of the region that scrolls
  bool wrap_ = false;         // the last column is full: the next character goes to the next line
  std::string pending_;       // an incomplete sequence or character
  std::string last_;
  std::vector<std::vector<std::string>> cells_;
  bool colored_ = false, given_back_ = false;
};

class Screen {
 public:
  Screen(const test::Words& command, const test::Environment& environment, int width = 80,
         int height = 24);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  Picture& picture() { return picture_; }
  std::string text() const { return picture_.text(); }
  // Reads until the picture has the text (or lacks it); false after kPatience.
  bool shows(const std::string& text) { return waits_for(text, true); }
  bool lacks(const std::string& text) { return waits_for(text, false); }
  template <typename Good>
  bool until(Good good);
  void press(const std::string& keys);
  void resize(int width, int height);
  void signal(int number) const { child_.signal(number); }
  void close_terminal();
  // Waits until the program has ended, and reads what it says last.
  test::Ending end();
  bool running() const { return !child_.ended(); }

 private:
  bool waits_for(const std::string& text, bool there);
  // What came within so long; false at the end of the program's output.
  bool read(int milliseconds);

  int terminal_ = -1;
  test::Child child_;
  Picture picture_;
};

template <typename Good>
bool Screen::until(Good good) {
  const auto deadline = base::Deadline::after(test::kPatience);
  while (!deadline.expired()) {
    if (good(picture_)) return true;
    if (!read(50)) return good(picture_);
  }
  return false;
}

}  // namespace neuron::top

#endif
