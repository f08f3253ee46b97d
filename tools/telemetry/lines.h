// SPDX-License-Identifier: Apache-2.0
// The lines and numbers of what the kernel writes as text.
//
// Callers: this folder. Any thread. Cannot fail: what is no number is 0.
#ifndef TOOLS_TELEMETRY_LINES_H
#define TOOLS_TELEMETRY_LINES_H

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace neuron::telemetry {

inline uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <class Use>
void each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace neuron::telemetry

#endif
