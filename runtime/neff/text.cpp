// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/text.h"

#include <cstdint>

namespace neuron::neff {

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const int more = first >= 0xC2 && first <= 0xDF   ? 1
                     : first >= 0xE0 && first <= 0xEF ? 2
                     : first >= 0xF0 && first <= 0xF4 ? 3
                                                      : 0;
    if (more == 0 || text.size() - i <= static_cast<size_t>(more)) return false;
    uint32_t code = first & (0x3F >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3F);
    }
    static constexpr uint32_t kLeast[4] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += static_cast<size_t>(more) + 1;
  }
  return true;
}

std::string printable(std::string_view text) {
  constexpr size_t kMost = 200;
  const bool cut = text.size() > kMost;
  if (cut) text = text.substr(0, kMost);
  const bool utf8 = is_utf8(text);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || c == '"' || c == '\\' || (byte >= 0x80 && !utf8)) {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  if (cut) out += "...";
  return out;
}

}  // namespace neuron::neff
