// SPDX-License-Identifier: Apache-2.0
// The error of everything behind a C interface, and the macros that pass it on.
//
// An error carries the status that the C caller will see, an errno if the system gave one, and a
// sentence for an operator: what failed, where, what was found and expected, what to do.
// Callers: each library names its own type after its statuses (runtime/base/error.h,
// ccom/base/error.h). Thread-safe: values. Allocates; the C interfaces catch std::bad_alloc.
#ifndef DRIVER_BASE_ERROR_H
#define DRIVER_BASE_ERROR_H

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "driver/base/format.h"

namespace neuron::base {

// The text, ": ", and what the errno value means.
std::string with_errno_meaning(std::string text, int errno_value);

// `kUnknown` is the status of an error whose status nobody has set.
template <class Status, Status kUnknown>
struct BasicError {
  BasicError() = default;
  BasicError(Status status_value, std::string sentence_value, int errno_value = 0)
      : status(status_value), errno_(errno_value), sentence(std::move(sentence_value)) {}

  // The same error with "context: " in front of its sentence.
  template <class... A>
  BasicError with(fmt::format_string<A...> text, A&&... arguments) const {
    return {status, base::format(text, std::forward<A>(arguments)...) + ": " + sentence, errno_};
  }

  Status status = kUnknown;
  int errno_ = 0;
  std::string sentence;
};

// Boost calls this for result::value() on an error, which is a bug of the caller.
template <class Status, Status kUnknown>
[[noreturn]] void throw_exception_from_error(const BasicError<Status, kUnknown>& error,
                                             const boost::source_location&) {
  throw std::logic_error("value taken from an error: " + error.sentence);
}

}  // namespace neuron::base

// NEURON_TRY(file, open_file(name)); declares `file`, or returns the error of the call.
#define NEURON_TRY_JOIN_(a, b) a##b
#define NEURON_TRY(name, ...)                            \
  auto NEURON_TRY_JOIN_(name, _result_) = (__VA_ARGS__); \
  if (!NEURON_TRY_JOIN_(name, _result_)) {               \
    return NEURON_TRY_JOIN_(name, _result_).error();     \
  }                                                      \
  [[maybe_unused]] auto& name = *NEURON_TRY_JOIN_(name, _result_)

// NEURON_CHECK(step()); returns the error of a call that gives Result<void>.
#define NEURON_CHECK(...)                                                   \
  do {                                                                      \
    if (auto neuron_check_result_ = (__VA_ARGS__); !neuron_check_result_) { \
      return neuron_check_result_.error();                                  \
    }                                                                       \
  } while (false)

#endif
