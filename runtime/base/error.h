// SPDX-License-Identifier: Apache-2.0
// Error and Result of libnrt: driver/base/error.h with the statuses of the public interface.
//
// fail() makes an Error; .with("loading {}", name) puts context in front on its way up.
// Result<T> is either a T or an Error; Result<void> is for calls without a value.
// Thread-safe: values.
#ifndef RUNTIME_BASE_ERROR_H
#define RUNTIME_BASE_ERROR_H

#include <nrt/nrt_status.h>

#include "driver/base/error.h"

namespace neuron::runtime {

using base::escaped;
using base::format;

using Error = base::BasicError<NRT_STATUS, NRT_FAILURE>;

template <class T>
using Result = boost::system::result<T, Error>;

template <class... A>
Error fail(NRT_STATUS status, fmt::format_string<A...> text, A&&... arguments) {
  return {status, base::format(text, std::forward<A>(arguments)...)};
}

// As fail(); the meaning of the errno value is appended to the sentence.
template <class... A>
Error fail_with_errno(NRT_STATUS status, int errno_value, fmt::format_string<A...> text,
                      A&&... arguments) {
  std::string sentence =
      base::with_errno_meaning(base::format(text, std::forward<A>(arguments)...), errno_value);
  return {status, sentence + " (errno " + std::to_string(errno_value) + ")", errno_value};
}

inline Error null_argument(const char* argument) {
  return fail(NRT_INVALID, "argument '{}' is NULL", argument);
}

}  // namespace neuron::runtime

#endif
