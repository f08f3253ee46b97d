// SPDX-License-Identifier: Apache-2.0
// A text as a JSON string, with its quotes. Thread-safe: a function of its argument.
#ifndef CCOM_COMMUNICATOR_JSON_TEXT_H
#define CCOM_COMMUNICATOR_JSON_TEXT_H

#include <string>
#include <string_view>

namespace neuron::ccom {

inline std::string json_text(std::string_view text) {
  static const char kDigits[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      result += "\\u00";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace neuron::ccom

#endif
