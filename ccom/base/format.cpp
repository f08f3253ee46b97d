// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY 1
#include "ccom/base/format.h"

#include <fmt/format.h>

namespace neuron::ccom {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

}  // namespace neuron::ccom
