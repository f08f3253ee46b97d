// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/diagnostic.h"

#include <algorithm>

#include "driver/base/format.h"

namespace neuron::assembler {
namespace {

constexpr size_t kShownBytes = 160;

std::string_view line_of(std::string_view source, uint32_t line) {
  for (uint32_t at = 1; at < line; ++at) {
    const size_t end = source.find('\n');
    if (end == std::string_view::npos) return {};
    source.remove_prefix(end + 1);
  }
  return source.substr(0, source.find('\n'));
}

}  // namespace

std::string render(const Diagnostic& diagnostic, std::string_view file, std::string_view source) {
  const std::string name = base::escaped(std::string(file));
  std::string text =
      base::format("{}:{}:{}: {}\n", name, diagnostic.line, diagnostic.column, diagnostic.message);
  std::string shown(line_of(source, diagnostic.line));
  size_t caret = diagnostic.column == 0 ? 0 : diagnostic.column - 1;
  caret = std::min(caret, shown.size());
  // A long line is shown around the place.
  if (shown.size() > kShownBytes) {
    const size_t begin = caret > kShownBytes / 2 ? caret - kShownBytes / 2 : 0;
    shown = shown.substr(begin, kShownBytes);
    caret -= begin;
  }
  // Tabs and bytes that are not ASCII would misplace the caret.
  for (char& c : shown) {
    if (c == '\t') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  const std::string margin = std::to_string(diagnostic.line);
  text += base::format("  {} | {}\n", margin, shown);
  text += std::string(2 + margin.size(), ' ') + " | " + std::string(caret, ' ') + "^\n";
  return text;
}

std::string render(const std::vector<Diagnostic>& diagnostics, std::string_view file,
                   std::string_view source) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += render(diagnostic, file, source);
  return text;
}

}  // namespace neuron::assembler
