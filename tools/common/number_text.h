// SPDX-License-Identifier: Apache-2.0
//
// Numbers at the end of a text, without a locale. Callers: writers of JSON and of metrics.
// Thread-safe: no state. Cannot fail: NaN and infinity become 0.
#ifndef TOOLS_COMMON_NUMBER_TEXT_H
#define TOOLS_COMMON_NUMBER_TEXT_H

#include <charconv>
#include <cmath>
#include <concepts>
#include <string>

namespace neuron::tools {

// The shortest spelling that reads back as the same value.
inline void append_number(std::string& out, double value) {
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, std::isfinite(value) ? value : 0.0);
  out.append(digits, end.ptr);
}
inline void append_number(std::string& out, std::integral auto value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end.ptr);
}

}  // namespace neuron::tools

#endif
