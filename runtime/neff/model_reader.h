// SPDX-License-Identifier: Apache-2.0
//
// Reads and checks a NEFF: every index, offset, size, symbol and number of the model that comes out
// is in range, so that users need no further bounds checks.
//
// Callers: runtime/model (loading), tools. Thread-safe: functions of their arguments. Fails:
// NRT_INVALID (malformed), NRT_UNSUPPORTED_NEFF_VERSION (not for this runtime or device); the
// sentence names member, field, found, expected. Unknown JSON keys are ignored and listed in the
// model's `notes`.
#ifndef RUNTIME_NEFF_MODEL_READER_H
#define RUNTIME_NEFF_MODEL_READER_H

#include "runtime/base/error.h"
#include "runtime/neff/compatibility.h"
#include "runtime/neff/container.h"
#include "runtime/neff/model.h"

namespace neuron::neff {

// Checks compatibility (compatibility.h) first.
runtime::Result<Model> load_model(const Container& container, const Target& target,
                                  const ModelLimits& limits = {});

}  // namespace neuron::neff

#endif
