// SPDX-License-Identifier: Apache-2.0
// A stream of collectives as the runtime describes it (ccom_device.h): checked, planned, compiled.
//
// Callers: the C interface. Thread-safe: functions of their arguments. Fails: CCOM_INVALID with the
// collective and its argument, else as the planner and the compiler do.
#ifndef CCOM_DEVICE_STREAM_PLANNER_H
#define CCOM_DEVICE_STREAM_PLANNER_H

#include <ccom/ccom_device.h>

#include "ccom/base/error.h"
#include "ccom/device/device_program.h"

namespace neuron::ccom {

// What the schedule of a collective needs of its rank, in bytes. `stream` may be null.
Result<uint64_t> scratch_bytes(const ccom_device_stream_t* stream, uint32_t number);
Result<DeviceProgram> plan_stream(const ccom_device_stream_t* stream);

}  // namespace neuron::ccom

#endif
