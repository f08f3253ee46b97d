// SPDX-License-Identifier: Apache-2.0
//
// From a handle of the C interface to the object that it names.
// Callers: every C function that gets a handle. Thread-safe. Fails: NRT_INVALID for a null handle,
// NRT_INVALID_HANDLE for one that names no object of the kind.
#ifndef RUNTIME_SESSION_PIN_H
#define RUNTIME_SESSION_PIN_H

#include "runtime/session/session.h"

namespace neuron::runtime {

// `what`: the argument's name.
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

}  // namespace neuron::runtime

#endif
