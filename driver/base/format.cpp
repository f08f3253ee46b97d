// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
#include "driver/base/format.h"

#include <fmt/format.h>

#include "driver/base/utf8.h"

namespace neuron::base {
namespace {

// Bytes of the printable UTF-8 character at the start of `text`; 0 if there is none.
size_t printable_character(fmt::string_view text) {
  const auto [bytes, code] = first_character({text.data(), text.size()});
  // Below U+00A0 are the control characters of 7-bit and of 8-bit terminals.
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  return control ? 0 : bytes;
}

}  // namespace

size_t escape_into(char* out, size_t size, fmt::string_view text) noexcept {
  static constexpr char kDigits[] = "0123456789abcdef";
  size_t used = 0;
  while (text.size() != 0) {
    const size_t good = printable_character(text);
    const size_t wanted = good != 0 ? good : 4;
    if (wanted > size - used) break;
    if (good != 0) {
      for (size_t i = 0; i < good; ++i) out[used++] = text.data()[i];
    } else {
      const auto byte = static_cast<unsigned char>(text.data()[0]);
      for (char c : {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]}) out[used++] = c;
    }
    const size_t taken = good != 0 ? good : 1;
    text = {text.data() + taken, text.size() - taken};
  }
  return used;
}

std::string escaped(fmt::string_view text) {
  std::string out(text.size() * 4, '\0');
  out.resize(escape_into(out.data(), out.size(), text));
  return out;
}

std::string format_arguments(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

size_t format_arguments_into(char* out, size_t size, fmt::string_view text,
                             fmt::format_args arguments) noexcept {
  try {
    auto result = fmt::vformat_to_n(out, size, text, arguments);
    return result.size < size ? result.size : size;
  } catch (...) {
    return 0;  // Format strings are checked at compile time; only a custom formatter can throw.
  }
}

}  // namespace neuron::base
