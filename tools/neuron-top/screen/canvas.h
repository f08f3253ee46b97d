// SPDX-License-Identifier: Apache-2.0
//
// A rectangle of characters with styles: the layout draws on it, a painter shows it.
//
// Callers: layout, painter, tests. A value. Cannot fail: text outside the rectangle is cut.
#ifndef TOOLS_NEURON_TOP_SCREEN_CANVAS_H
#define TOOLS_NEURON_TOP_SCREEN_CANVAS_H

#include <string>
#include <string_view>
#include <vector>

#include "tools/neuron-top/model/state.h"

namespace neuron::top {

// The meaning of a cell; painters choose colours and attributes for it.
enum class Ink : unsigned char {
  kPlain,
  kTitle,
  kHeading,
  kFilled,  // of a bar: used, by users
  kSystem,  // of a bar: used, by the system
  kEmpty,   // of a bar
  kSelected,
  kActive,  // the tab
  kFaint,
  kGood,
  kWarning,
  kBad,
  kCount,
};

struct Cell {
  char32_t character = U' ';
  Ink ink = Ink::kPlain;
  bool operator==(const Cell&) const = default;
};

// A rectangle that a click hits.
struct Area {
  int x = 0, y = 0, width = 0;
  Target target;
};

class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width < 0 ? 0 : width),
        height_(height < 0 ? 0 : height),
        cells_(static_cast<size_t>(width_) * static_cast<size_t>(height_)) {}

  int width() const { return width_; }
  int height() const { return height_; }
  const Cell& at(int x, int y) const { return cells_[index(x, y)]; }

  // Marks the second column of a character that takes two.
  static constexpr char32_t kSecondHalf = 0;

  // UTF-8; returns the column behind the text. At most `room` columns. Characters that take no
  // column of their own, or would control the terminal, are left out.
  int put(int x, int y, std::string_view text, Ink ink = Ink::kPlain, int room = 1 << 20);
  void put(int x, int y, char32_t character, Ink ink);
  // Replaces every character beyond ASCII by '?'.
  void make_ascii();
  // Gives every cell of a line the ink.
  void paint_line(int y, Ink ink);

  void add_area(const Area& area) { areas_.push_back(area); }
  const Target* target_at(int x, int y) const;

  // The lines as UTF-8, without spaces at their ends.
  std::string text() const;

 private:
  void clear_halves(int x, int y);
  size_t index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x);
  }

  int width_, height_;
  std::vector<Cell> cells_;
  std::vector<Area> areas_;
};

}  // namespace neuron::top

#endif
