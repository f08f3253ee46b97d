// SPDX-License-Identifier: Apache-2.0
//
// Text formatting with checked format strings, without a dependency on the fmt shared library.
// Callers: everything that makes a sentence. Thread-safe: yes, no state.
// The format string is checked at compile time; the formatter itself is compiled once, in
// format.cpp, so that this header costs little and no program needs libfmt at run time.
#ifndef DRIVER_BASE_FORMAT_H
#define DRIVER_BASE_FORMAT_H

#include <fmt/core.h>

#include <cstddef>
#include <string>

namespace neuron::base {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments);

// Writes at most `size` bytes, no terminator, no allocation; returns the bytes written.
size_t format_arguments_into(char* out, size_t size, fmt::string_view text,
                             fmt::format_args arguments) noexcept;

// Copies text of unknown origin: control characters and bytes that are not UTF-8 become \xNN, so
// that a name out of a file can neither break a line nor command a terminal. Writes at most `size`
// bytes, no terminator, no allocation; returns the bytes written.
size_t escape_into(char* out, size_t size, fmt::string_view text) noexcept;
std::string escaped(fmt::string_view text);

template <class... A>
std::string format(fmt::format_string<A...> text, A&&... arguments) {
  return format_arguments(text, fmt::make_format_args(arguments...));
}

}  // namespace neuron::base

#endif
