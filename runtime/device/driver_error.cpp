// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/driver_error.h"

#include <cerrno>

#include "driver/ndl/error.h"

namespace neuron::runtime {

NRT_STATUS status_of_errno(int result, NRT_STATUS otherwise) {
  switch (-result) {
    case ENOMEM:
      return NRT_RESOURCE;
    case ETIMEDOUT:
      return NRT_TIMEOUT;
    default:
      return otherwise;
  }
}

Error driver_error_arguments(NRT_STATUS otherwise, int result, fmt::string_view text,
                             fmt::format_args arguments) {
  const NRT_STATUS status = status_of_errno(result, otherwise);
  const char* sentence = ndl::last_error();
  if (sentence == nullptr || *sentence == '\0') {
    return fail_with_errno(status, result < 0 ? -result : EIO, "{}",
                           base::format_arguments(text, arguments));
  }
  return Error(status, base::format_arguments(text, arguments) + ": " + sentence, -result);
}

}  // namespace neuron::runtime
