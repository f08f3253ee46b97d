// SPDX-License-Identifier: Apache-2.0
// The holders of cores, locks and devices in words: pid, command and since when.
//
// Callers: this folder and the control channel, any thread. Values only. Fails: never; a command
// that cannot be read is left out.
#ifndef DRIVER_EMULATOR_SERVICE_HOLDER_H
#define DRIVER_EMULATOR_SERVICE_HOLDER_H

#include <cstdint>
#include <string>
#include <vector>

#include "driver/core/claims.h"

namespace neuron::service {

uint64_t now_in_seconds();
// The process as it is called now.
nd_holder holder_of(int32_t pid);
// "12:01:07", with the date if that was on another day; local time.
std::string describe_time(uint64_t seconds);
// "pid 4711 (python3) since 12:01:07"
std::string describe_holder(int32_t pid, const nd_holder& who);
// "core 3 is held by pid 4711 (python3) since 12:01:07", the first few of [start, end]; numbers are
// relative to `base`. Empty if all are free. The caller holds the lock of the claims.
std::string describe_holders(const nd_claims& claims, uint32_t base, uint32_t start, uint32_t end);
// The processes that hold one of them; the same numbers and lock.
std::vector<int32_t> holders_of(const nd_claims& claims, uint32_t base, uint32_t start,
                                uint32_t end);
// Whether one of these processes of this host has ended, so that what it had is being freed; one of
// which the kernel does not tell it lives. It asks the kernel for each: not under a lock.
bool one_has_ended(const std::vector<int32_t>& processes);

}  // namespace neuron::service

#endif
