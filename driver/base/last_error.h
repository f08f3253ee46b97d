// SPDX-License-Identifier: Apache-2.0
// The sentence that goes with a negative errno: why the last failed call of this thread failed.
//
// Callers: the driver library and the emulated device, whose C interfaces answer with an errno.
// Each library that links this has sentences of its own. Thread-safe: a sentence belongs to its
// thread. Owns a fixed buffer per thread, so that running out of memory can be reported too; a
// longer sentence is cut. Cannot fail.
#ifndef DRIVER_BASE_LAST_ERROR_H
#define DRIVER_BASE_LAST_ERROR_H

namespace neuron::base {

// Empty if no call has failed since clear_error(). Valid until the next failure of this thread.
const char* last_error();
void clear_error();

// Records a sentence and sets errno. Returns `error`, a negative errno value, so that a failure is
// one line: return fail(-EINVAL, "...").
int fail(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Puts "<text>: " before the sentence that was recorded further down, or before the meaning of the
// errno value if there is none. Returns `error`, a negative errno value.
int explain(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace neuron::base

#endif
