// SPDX-License-Identifier: Apache-2.0
// Refuses requests that no schedule can serve. Callers: planner, checker. Thread-safe. Fails:
// CCOM_INVALID with the argument, what was found and what is expected.
#ifndef CCOM_REQUEST_VALIDATE_H
#define CCOM_REQUEST_VALIDATE_H

#include "ccom/base/error.h"
#include "ccom/request/request.h"

namespace neuron::ccom {

Result<void> validate(const Request& request, uint32_t ranks);

}  // namespace neuron::ccom

#endif
