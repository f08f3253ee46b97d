// SPDX-License-Identifier: Apache-2.0
// Checks, plans and compiles a stream of collectives that the runtime describes (ccom_device.h).
//
// Callers: the C interface. Thread-safe: functions of their arguments. Fails: CCOM_INVALID with the
// collective and its argument; otherwise the errors of planner and compiler.
#ifndef CCOM_DEVICE_STREAM_PLANNER_H
#define CCOM_DEVICE_STREAM_PLANNER_H

#include <ccom/ccom_device.h>

#include "ccom/base/error.h"
#include "ccom/device/device_program.h"

namespace neuron::ccom {

// The scratch bytes that the schedule of a collective needs at its rank. `stream` may be null.
Result<uint64_t> scratch_bytes(const ccom_device_stream_t* stream, uint32_t number);
Result<DeviceProgram> plan_stream(const ccom_device_stream_t* stream);

}  // namespace neuron::ccom

#endif
