// SPDX-License-Identifier: Apache-2.0
// The process that a descriptor counts for.
//
// Callers: whoever opens devices. A value.
#ifndef DRIVER_EMULATOR_SERVICE_CLIENT_H
#define DRIVER_EMULATOR_SERVICE_CLIENT_H

#include <cstdint>

namespace neuron::service {

struct Client {
  int32_t pid = 0;
  uint32_t user = 0;  // shares and limits go by user: forking gives nobody more
  // Tells the process from all others, also from an earlier one with its pid. 0: the process that
  // the devices are in, which owns everything.
  uint64_t process = 0;
};

}  // namespace neuron::service

#endif
