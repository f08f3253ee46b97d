// SPDX-License-Identifier: Apache-2.0
// The sentence that goes with a negative errno of the service.
//
// Callers: everything in this folder. One sentence per thread, replaced by the next failure; a
// success leaves it alone. Never fails: a sentence that is too long is cut.
#ifndef DRIVER_EMULATOR_SERVICE_ERROR_H
#define DRIVER_EMULATOR_SERVICE_ERROR_H

namespace neuron::service {

// Returns `error` (negative errno), so that a failure is one line: return fail(-EINVAL, "...").
int fail(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* last_error();

}  // namespace neuron::service

#endif
