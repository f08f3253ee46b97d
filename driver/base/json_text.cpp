// SPDX-License-Identifier: Apache-2.0
#include "driver/base/json_text.h"

#include "driver/base/utf8.h"

namespace neuron::base {

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const auto [bytes, code] = first_character(text);
    if (bytes == 0) {
      out += "\xEF\xBF\xBD";
    } else if (code == '"' || code == '\\') {
      out += '\\';
      out += text[0];
    } else if (code < 0x20 || code == 0x7F) {
      out += "\\u00";
      out += kDigits[code >> 4];
      out += kDigits[code & 15];
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace neuron::base
