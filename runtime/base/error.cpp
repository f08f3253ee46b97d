// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"

#include <cstring>

namespace neuron::runtime {

Error fail_with_errno_arguments(NRT_STATUS status, int errno_value, fmt::string_view text,
                                fmt::format_args arguments) {
  char meaning[128] = "";
  // The GNU strerror_r may return a constant instead of filling the buffer.
  const char* words = strerror_r(errno_value, meaning, sizeof(meaning));
  return Error(status, errno_value,
               format_arguments(text, arguments) + ": " + words + " (errno " +
                   std::to_string(errno_value) + ")");
}

}  // namespace neuron::runtime
