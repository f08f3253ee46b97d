// SPDX-License-Identifier: Apache-2.0
// Error and Result of everything behind the C interface of libccom.
//
// An Error is a status for the C caller and a sentence for an operator: what failed, where (rank,
// host, operation, link), found and expected, what to do. Thread-safe: values. Allocates;
// std::bad_alloc is caught at the C interface.
#ifndef CCOM_BASE_ERROR_H
#define CCOM_BASE_ERROR_H

#include <ccom/ccom.h>

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "ccom/base/format.h"

namespace neuron::ccom {

struct Error {
  ccom_status_t status = CCOM_SYSTEM;
  std::string sentence;

  // The same error with "context: " in front of its sentence.
  template <class... A>
  Error with(fmt::format_string<A...> text, A&&... arguments) const {
    return {status, ccom::format(text, std::forward<A>(arguments)...) + ": " + sentence};
  }
};

template <class T>
using Result = boost::system::result<T, Error>;

template <class... A>
Error fail(ccom_status_t status, fmt::format_string<A...> text, A&&... arguments) {
  return {status, ccom::format(text, std::forward<A>(arguments)...)};
}

// As fail(), with CCOM_SYSTEM (or CCOM_RESOURCE for ENOMEM, EMFILE, ENFILE, ENOSPC) and the meaning
// of the errno value appended.
Error system_error(int error, std::string sentence);

[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::logic_error("value taken from an error: " + error.sentence);
}

}  // namespace neuron::ccom

#define CCOM_TRY_JOIN_(a, b) a##b
// CCOM_TRY(file, open_file(name)); declares `file`, or returns the error of the call.
#define CCOM_TRY(name, ...)                            \
  auto CCOM_TRY_JOIN_(name, _result_) = (__VA_ARGS__); \
  if (!CCOM_TRY_JOIN_(name, _result_)) {               \
    return CCOM_TRY_JOIN_(name, _result_).error();     \
  }                                                    \
  [[maybe_unused]] auto& name = *CCOM_TRY_JOIN_(name, _result_)

// CCOM_CHECK(step()); for calls that return Result<void>.
#define CCOM_CHECK(...)                                                 \
  do {                                                                  \
    if (auto ccom_check_result_ = (__VA_ARGS__); !ccom_check_result_) { \
      return ccom_check_result_.error();                                \
    }                                                                   \
  } while (false)

#endif
