// SPDX-License-Identifier: Apache-2.0
// Which bytes are UTF-8 (RFC 3629). Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_UTF8_H
#define DRIVER_BASE_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace neuron::base {

// The character at the start of a text: how many bytes it has, and its code point. `bytes` is 0 if
// the text is empty or does not begin with valid UTF-8 (a surrogate is not valid).
struct Utf8Character {
  size_t bytes = 0;
  uint32_t code = 0;
};
Utf8Character first_character(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace neuron::base

#endif
