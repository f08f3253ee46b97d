// SPDX-License-Identifier: Apache-2.0
// Text formatting with checked format strings, without a dependency on the fmt shared library: the
// formatting itself is in format.cpp, so that this header costs little.
#ifndef CCOM_BASE_FORMAT_H
#define CCOM_BASE_FORMAT_H

#include <fmt/core.h>

#include <string>

namespace neuron::ccom {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments);

template <class... A>
std::string format(fmt::format_string<A...> text, A&&... arguments) {
  return format_arguments(text, fmt::make_format_args(arguments...));
}

}  // namespace neuron::ccom

#endif
