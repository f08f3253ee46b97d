// SPDX-License-Identifier: Apache-2.0
//
// How to print to a person: colours, characters beyond ASCII, columns. Callers: programs, once at
// the start, for the descriptor they print to. Thread-safe: no for style_of(), which reads the
// environment and sets the locale of characters: call it before threads start; the rest are values.
// Cannot fail: the plainest style is the default.
#ifndef TOOLS_COMMON_TERMINAL_H
#define TOOLS_COMMON_TERMINAL_H

#include <string>
#include <string_view>

namespace neuron::tools {

class Command;

enum class ColorMode { kAuto, kAlways, kNever };

struct Style {
  bool color = false;
  bool unicode = false;
  unsigned width = 80;
};

// --color auto|always|never.
void add_color_option(Command& line, ColorMode& mode);

// auto: a terminal that is not dumb, unless NO_COLOR says no or CLICOLOR_FORCE says yes.
Style style_of(int descriptor, ColorMode mode);

// Of a terminal now; of anything else what COLUMNS says, or 80.
unsigned columns_of_terminal(int descriptor);

// Colours of a palette that the colour-blind can tell apart. A colour is never the only sign: a
// word beside it says the same.
enum class Paint { kGood, kWarning, kBad, kFaint, kStrong };
std::string painted(const Style& style, Paint paint, std::string_view text);

// Columns that UTF-8 text takes: one for each character.
size_t columns_of(std::string_view text);
// Cleans text from a process, a file or a person before it is shown. Otherwise control characters
// could reach the terminal, and bytes that are not UTF-8 a JSON reader.
std::string printable(std::string_view text);

}  // namespace neuron::tools

#endif
