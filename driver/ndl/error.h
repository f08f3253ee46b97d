// SPDX-License-Identifier: Apache-2.0
// The sentence that goes with a failed call of the driver library.
//
// Callers: ports and ndl_* functions record it; the runtime and tools read it right after a call
// that failed. Thread-safe: the sentence belongs to the calling thread. Owns: a fixed buffer per
// thread, so that running out of memory can be reported too; longer sentences are cut.
#ifndef DRIVER_NDL_ERROR_H
#define DRIVER_NDL_ERROR_H

namespace neuron::ndl {

// Why the last failed call of this thread failed; empty if none did. Valid until the next call.
const char* last_error();

void clear_error();

// Records a sentence, sets errno, returns -error. `error`: a positive errno value.
int fail(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Puts "<text>: " before the sentence that was recorded further down, or before the text of the
// errno value if there is none. `result`: a negative errno value, which is returned.
int explain(int result, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace neuron::ndl

#endif
