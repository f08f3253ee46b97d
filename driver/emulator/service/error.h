// SPDX-License-Identifier: Apache-2.0
// The sentence that goes with a negative errno of the service (driver/base/last_error.h). A success
// leaves the sentence of an earlier failure alone.
#ifndef DRIVER_EMULATOR_SERVICE_ERROR_H
#define DRIVER_EMULATOR_SERVICE_ERROR_H

#include "driver/base/last_error.h"

namespace neuron::service {

using base::fail;
using base::last_error;

}  // namespace neuron::service

#endif
