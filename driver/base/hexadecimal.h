// SPDX-License-Identifier: Apache-2.0
// Bytes as text: two lower-case digits each. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_HEXADECIMAL_H
#define DRIVER_BASE_HEXADECIMAL_H

#include <cstdint>
#include <span>
#include <string>

namespace neuron::base {

inline std::string hexadecimal(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace neuron::base

#endif
