// SPDX-License-Identifier: Apache-2.0
//
// Error and Result of everything behind the C interface.
// An Error carries the status that the C caller will see, an errno if the system gave one, and a
// sentence for an operator: what failed, where, found and expected, what to do. It is made by
// fail() and gains context on its way up with .with("loading {}", name), which goes in front.
// Result<T> is either a T or an Error; Result<void> for calls without a value.
// Thread-safe: values, no shared state. Allocates; std::bad_alloc is caught at the C interface.
#ifndef RUNTIME_BASE_ERROR_H_
#define RUNTIME_BASE_ERROR_H_

#include <nrt/nrt_status.h>

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/base/format.h"

namespace neuron::runtime {

struct Error {
  Error() = default;
  Error(NRT_STATUS status_value, int errno_value, std::string sentence)
      : status(status_value), errno_(errno_value), detail(std::move(sentence)) {}

  // The same error with "context: " in front of its sentence.
  template <class... A>
  Error with(fmt::format_string<A...> text, A&&... arguments) const {
    return Error(status, errno_,
                 format_arguments(text, fmt::make_format_args(arguments...)) + ": " + detail);
  }

  NRT_STATUS status = NRT_FAILURE;
  int errno_ = 0;
  std::string detail;
};

template <class T>
using Result = boost::system::result<T, Error>;

template <class... A>
Error fail(NRT_STATUS status, fmt::format_string<A...> text, A&&... arguments) {
  return Error(status, 0, format_arguments(text, fmt::make_format_args(arguments...)));
}

// As fail(), with the meaning of the errno value appended to the sentence.
Error fail_with_errno_arguments(NRT_STATUS status, int errno_value, fmt::string_view text,
                                fmt::format_args arguments);

template <class... A>
Error fail_with_errno(NRT_STATUS status, int errno_value, fmt::format_string<A...> text,
                      A&&... arguments) {
  return fail_with_errno_arguments(status, errno_value, text, fmt::make_format_args(arguments...));
}

// result::value() on an error is a bug of the caller; boost finds this by the type of the error.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::logic_error("value taken from an error: " + error.detail);
}

}  // namespace neuron::runtime

// NEURON_TRY(file, open_file(name)); declares `file`, or returns the error of the call.
#define NEURON_TRY_JOIN_(a, b) a##b
#define NEURON_TRY(name, ...)                            \
  auto NEURON_TRY_JOIN_(name, _result_) = (__VA_ARGS__); \
  if (!NEURON_TRY_JOIN_(name, _result_)) {               \
    return NEURON_TRY_JOIN_(name, _result_).error();     \
  }                                                      \
  [[maybe_unused]] auto& name = *NEURON_TRY_JOIN_(name, _result_)

// NEURON_CHECK(step()); for calls that return Result<void>.
#define NEURON_CHECK(...)                                                   \
  do {                                                                      \
    if (auto neuron_check_result_ = (__VA_ARGS__); !neuron_check_result_) { \
      return neuron_check_result_.error();                                  \
    }                                                                       \
  } while (false)

#endif  // RUNTIME_BASE_ERROR_H_
