// SPDX-License-Identifier: Apache-2.0
// The sentence that goes with a failed call of the driver library (driver/base/last_error.h).
//
// Ports and ndl_* functions record it; the runtime and tools read it right after a call that
// failed. An ndl_* function first clears it.
#ifndef DRIVER_NDL_ERROR_H
#define DRIVER_NDL_ERROR_H

#include "driver/base/last_error.h"

namespace neuron::ndl {

using base::clear_error;
using base::explain;
using base::fail;
using base::last_error;

}  // namespace neuron::ndl

#endif
