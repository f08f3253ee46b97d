// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/text.h"

namespace neuron::neff {

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
