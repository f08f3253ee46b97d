// SPDX-License-Identifier: Apache-2.0
//
// A failed call of the driver library as an Error: the caller's sentence, then the driver's own.
// Callers: everything in the runtime that calls ndl_*. Thread-safe: the driver's sentence belongs
// to the calling thread, so make the error right after the call.
#ifndef RUNTIME_DEVICE_DRIVER_ERROR_H
#define RUNTIME_DEVICE_DRIVER_ERROR_H

#include "runtime/base/error.h"

namespace neuron::runtime {

// NRT_RESOURCE for -ENOMEM, NRT_TIMEOUT for -ETIMEDOUT, else `otherwise`.
NRT_STATUS status_of_errno(int result, NRT_STATUS otherwise);

Error driver_error_arguments(NRT_STATUS otherwise, int result, fmt::string_view text,
                             fmt::format_args arguments);

// `result`: what the ndl_* function returned, a negative errno value.
template <class... A>
Error driver_error(NRT_STATUS otherwise, int result, fmt::format_string<A...> text,
                   A&&... arguments) {
  return driver_error_arguments(otherwise, result, text, fmt::make_format_args(arguments...));
}

}  // namespace neuron::runtime

#endif
