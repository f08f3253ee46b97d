// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/screen/canvas.h"

#include <algorithm>
#include <iterator>

namespace neuron::top {
namespace {

// The next character of UTF-8; invalid bytes become '?'.
char32_t next(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) {
    text.remove_prefix(1);
    return U'?';
  }
  char32_t character = length == 1 ? first : first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      text.remove_prefix(1);
      return U'?';
    }
    character = (character << 6) | (byte(i) & 0x3f);
  }
  text.remove_prefix(length);
  const bool overlong = (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  if (overlong || character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) return U'?';
  const bool control = character < 0x20 || (character >= 0x7f && character < 0xa0);
  return control ? U' ' : character;
}

struct Range {
  char32_t first, last;
};

// Marks on the character before, and characters that change the direction of writing.
constexpr Range kWithoutWidth[] = {
    {0xad, 0xad},     {0x300, 0x36f},    {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
    {0x64b, 0x65f},   {0x1ab0, 0x1aff},  {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x20d0, 0x20ff},  {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff},
    {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
// East Asian scripts and pictures.
constexpr Range kTwoColumns[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xa960, 0xa97f}, {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
    {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

int columns_of(char32_t character) {
  const auto within = [&](const Range& range) {
    return character >= range.first && character <= range.last;
  };
  if (character < 0xad) return 1;
  if (std::any_of(std::begin(kWithoutWidth), std::end(kWithoutWidth), within)) return 0;
  return std::any_of(std::begin(kTwoColumns), std::end(kTwoColumns), within) ? 2 : 1;
}

void append(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  }
}

}  // namespace

int Canvas::put(int x, int y, std::string_view text, Ink ink, int room) {
  while (!text.empty() && room > 0) {
    const char32_t character = next(text);
    const int columns = columns_of(character);
    if (columns == 0) continue;
    if (columns > room) break;
    const bool fits = columns == 1 || x + 1 < width_;
    put(x, y, fits ? character : U'?', ink);
    if (columns == 2 && fits) {
      put(x + 1, y, U' ', ink);
      if (x >= 0 && y >= 0 && y < height_) {
        cells_[index(x, y)] = {character, ink};
        cells_[index(x + 1, y)] = {kSecondHalf, ink};
      }
    }
    x += columns;
    room -= columns;
  }
  return x;
}

// Half of a character that took two columns is not a character: a space replaces the other half.
void Canvas::clear_halves(int x, int y) {
  if (at(x, y).character == kSecondHalf && x > 0) cells_[index(x - 1, y)].character = U' ';
  if (x + 1 < width_ && at(x + 1, y).character == kSecondHalf) {
    cells_[index(x + 1, y)].character = U' ';
  }
}

void Canvas::make_ascii() {
  for (Cell& cell : cells_) {
    if (cell.character >= 0x80 || cell.character == kSecondHalf) cell.character = U'?';
  }
}

void Canvas::put(int x, int y, char32_t character, Ink ink) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  clear_halves(x, y);
  cells_[index(x, y)] = {character, ink};
}

void Canvas::paint_line(int y, Ink ink) {
  if (y < 0 || y >= height_) return;
  for (int x = 0; x < width_; ++x) cells_[index(x, y)].ink = ink;
}

const Target* Canvas::target_at(int x, int y) const {
  for (const Area& area : areas_) {
    if (area.y == y && x >= area.x && x < area.x + area.width) return &area.target;
  }
  return nullptr;
}

std::string Canvas::text() const {
  std::string all;
  for (int y = 0; y < height_; ++y) {
    std::string line;
    size_t end = 0;
    for (int x = 0; x < width_; ++x) {
      if (at(x, y).character == kSecondHalf) continue;
      append(line, at(x, y).character);
      if (at(x, y).character != U' ') end = line.size();
    }
    all.append(line, 0, end);
    all += '\n';
  }
  return all;
}

}  // namespace neuron::top
