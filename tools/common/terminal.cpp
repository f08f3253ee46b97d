// SPDX-License-Identifier: Apache-2.0
#include "tools/common/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/neff/text.h"
#include "tools/common/command_line.h"

namespace neuron::tools {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool wants_color(int descriptor, ColorMode mode) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (!variable("NO_COLOR").empty()) return false;
  const std::string_view force = variable("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  const std::string_view terminal = variable("TERM");
  return isatty(descriptor) != 0 && !terminal.empty() && terminal != "dumb";
}

}  // namespace

unsigned columns_of_terminal(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int columns = std::atoi(std::string(variable("COLUMNS")).c_str());
  return columns > 0 ? static_cast<unsigned>(columns) : 80;
}

void add_color_option(Command& line, ColorMode& mode) {
  line.choice(
      "--color", {"auto", "always", "never"}, 0,
      [&mode](size_t word) { mode = static_cast<ColorMode>(word); },
      "colours; auto: on a terminal, unless NO_COLOR is set");
}

Style style_of(int descriptor, ColorMode mode) {
  std::setlocale(LC_CTYPE, "");
  return {.color = wants_color(descriptor, mode),
          .unicode = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
          .width = columns_of_terminal(descriptor)};
}

std::string painted(const Style& style, Paint paint, std::string_view text) {
  if (!style.color) return std::string(text);
  // Bluish green, orange, vermilion.
  static constexpr const char* kCodes[] = {"\033[38;5;36m", "\033[38;5;214m", "\033[1;38;5;202m",
                                           "\033[2m", "\033[1m"};
  return kCodes[static_cast<unsigned>(paint)] + std::string(text) + "\033[0m";
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

std::string printable(std::string_view text) {
  std::string out(text);
  const bool utf8 = neff::is_utf8(out);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) c = ' ';
    if (byte == 0x7F || (byte >= 0x80 && !utf8)) c = '?';
  }
  return out;
}

}  // namespace neuron::tools
