// SPDX-License-Identifier: Apache-2.0
//
// Words of HTTP, which are the same in large and small letters.
// Callers: any. Thread-safe: no state. Does not fail.
#ifndef TOOLS_NEURON_SERVE_WORD_H
#define TOOLS_NEURON_SERVE_WORD_H

#include <algorithm>
#include <string_view>

namespace neuron::serve {

inline bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace neuron::serve

#endif
