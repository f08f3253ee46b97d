// SPDX-License-Identifier: Apache-2.0
//
// The edge between the C interface and the runtime: state check, exceptions, statuses, sentences.
// Callers: every nrt_* function. Thread-safe: yes. No exception leaves a C function: std::bad_alloc
// becomes NRT_RESOURCE; any other exception is a bug and becomes NRT_FAILURE. The sentence of a
// failure is logged and kept as the thread's last one.
#ifndef RUNTIME_API_GUARD_H
#define RUNTIME_API_GUARD_H

#include "driver/base/guarded.h"
#include "runtime/base/error.h"
#include "runtime/session/lifecycle.h"
#include "runtime/session/pin.h"

#define NRT_EXPORT extern "C" __attribute__((visibility("default")))

namespace neuron::runtime::api {

// What a failure means to an operator. Of a question by which callers find out what a host can do,
// a refusal is an answer, and no line among the errors of the log. Of a function that the public
// header declares without a status, no program sees the failure: it is always logged.
enum class Failure : uint8_t { kError, kAnswer, kUnseen };

// Records and logs the error of the C function `name`.
NRT_STATUS report(const char* name, const Error& error, Failure failure = Failure::kError) noexcept;
NRT_STATUS report_exception(const char* name, const char* what, bool memory) noexcept;

// For functions that need no session.
template <class Body>
NRT_STATUS unguarded_state(const char* name, Body&& body,
                           Failure failure = Failure::kError) noexcept {
  return base::guarded(
      [&] {
        const Result<void> result = body();
        return result ? NRT_SUCCESS : report(name, result.error(), failure);
      },
      [&](const char* what, bool memory) { return report_exception(name, what, memory); });
}

// body(Session&)
template <class Body>
NRT_STATUS guarded(const char* name, Body&& body, Failure failure = Failure::kError) noexcept {
  return unguarded_state(
      name,
      [&]() -> Result<void> {
        SessionUse use;
        if (!use) return use.error();
        return body(*use);
      },
      failure);
}

}  // namespace neuron::runtime::api

#endif
