// SPDX-License-Identifier: Apache-2.0
//
// The edge between the C interface and the runtime: state check, exceptions, statuses, sentences.
// Callers: every nrt_* function. Thread-safe: yes. No exception leaves a C function: memory that
// runs out is NRT_RESOURCE, anything else is a bug and NRT_FAILURE. A failure is kept as the
// thread's last sentence and logged.
#ifndef RUNTIME_API_GUARD_H
#define RUNTIME_API_GUARD_H

#include <exception>
#include <new>

#include "runtime/base/error.h"
#include "runtime/session/lifecycle.h"

#define NRT_EXPORT extern "C" __attribute__((visibility("default")))

namespace neuron::runtime::api {

// Records and logs the error of the C function `name`.
NRT_STATUS report(const char* name, const Error& error) noexcept;
NRT_STATUS report_exception(const char* name, const char* what, bool memory) noexcept;

// For functions that need no session.
template <class Body>
NRT_STATUS unguarded_state(const char* name, Body&& body) noexcept {
  try {
    const Result<void> result = body();
    return result ? NRT_SUCCESS : report(name, result.error());
  } catch (const std::bad_alloc&) {
    return report_exception(name, "host memory ran out", true);
  } catch (const std::exception& exception) {
    return report_exception(name, exception.what(), false);
  } catch (...) {
    return report_exception(name, "unknown exception", false);
  }
}

// body(Session&)
template <class Body>
NRT_STATUS guarded(const char* name, Body&& body) noexcept {
  return unguarded_state(name, [&]() -> Result<void> {
    SessionUse use;
    if (!use) return use.error();
    return body(*use);
  });
}

inline Error null_argument(const char* argument) {
  return fail(NRT_INVALID, "argument '{}' is NULL", argument);
}

template <class T>
Result<Pin<T>> pin(Session& session, const void* handle, HandleKind kind, const char* what) {
  if (handle == nullptr) return null_argument(what);
  Pin<T> object(session.handles, handle, kind);
  if (!object) {
    return fail(NRT_INVALID_HANDLE,
                "{} {} is none of this runtime's: it was freed, or is something else", what,
                handle);
  }
  return object;
}

}  // namespace neuron::runtime::api

#endif
