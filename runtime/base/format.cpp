// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
#include "runtime/base/format.h"

#include <fmt/format.h>

namespace neuron::runtime {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

std::size_t format_arguments_into(char* out, std::size_t size, fmt::string_view text,
                                  fmt::format_args arguments) noexcept {
  try {
    auto result = fmt::vformat_to_n(out, size, text, arguments);
    return result.size < size ? result.size : size;
  } catch (...) {
    return 0;  // Format strings are checked at compile time; only a custom formatter can throw.
  }
}

}  // namespace neuron::runtime
