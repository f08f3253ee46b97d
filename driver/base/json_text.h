// SPDX-License-Identifier: Apache-2.0
// A text as a JSON string. Thread-safe: no state. Cannot fail: bytes that are not UTF-8 become
// U+FFFD, so the result is always valid.
#ifndef DRIVER_BASE_JSON_TEXT_H
#define DRIVER_BASE_JSON_TEXT_H

#include <string>
#include <string_view>

namespace neuron::base {

// With its quotes. Control characters are escaped; UTF-8 stays as it is.
std::string json_string(std::string_view text);
void append_json_string(std::string& out, std::string_view text);

}  // namespace neuron::base

#endif
