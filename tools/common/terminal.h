// SPDX-License-Identifier: Apache-2.0
//
// What may be printed to a person: colours, characters beyond ASCII, columns. Callers: programs,
// once at the start, for the descriptor they print to. Thread-safe: style_of() reads the
// environment and sets the locale of characters, so before threads; the rest are values.
// Cannot fail: what is not known is the plainest.
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

// Colours of a palette that the colour-blind can tell apart; never the only sign: the word beside
// it says the same.
enum class Paint { kGood, kWarning, kBad, kFaint, kStrong };
std::string painted(const Style& style, Paint paint, std::string_view text);

// Columns that UTF-8 text takes: one for each character.
size_t columns_of(std::string_view text);
// Control characters would reach the terminal, and bytes that are no UTF-8 a JSON reader: what a
// process, a file or a person wrote is cleaned before it is shown.
std::string printable(std::string_view text);

}  // namespace neuron::tools

#endif
