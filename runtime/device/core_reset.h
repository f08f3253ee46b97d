// SPDX-License-Identifier: Apache-2.0
//
// Resets of cores through the driver.
//
// Concepts: the driver keeps one result for each process and device, until the process fetches it;
// a second request meanwhile is refused. Cores of a device that fail at the same time therefore
// take turns here, each from its request to its result.
// Callers: session, before it makes its cores; cores after a fault; any thread. Fails: the driver's
// sentence; NRT_TIMEOUT if another thread's reset of the device has not ended in four minutes.
#ifndef RUNTIME_DEVICE_CORE_RESET_H
#define RUNTIME_DEVICE_CORE_RESET_H

#include "runtime/device/device.h"

namespace neuron::runtime {

// `map`: a bit for each physical core of the device. `otherwise`: the status of a failure that says
// no more.
Result<void> reset_cores(const Device& device, uint32_t map, NRT_STATUS otherwise = NRT_HW_ERROR);

}  // namespace neuron::runtime

#endif
