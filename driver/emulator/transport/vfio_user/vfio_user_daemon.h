// SPDX-License-Identifier: Apache-2.0
// The daemon's work when it serves virtual machines: from its arguments to its exit status.
//
// Callers: main, once, from its only thread; returns after SIGTERM or SIGINT. Fails: 1 with a
// sentence on stderr.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_DAEMON_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_DAEMON_H

#include <cstdint>
#include <string>

namespace neuron::transport {

struct VfioUserArguments {
  std::string folder;
  unsigned functions = 0;   // 0: as many as the profile has chips
  unsigned revision = 256;  // 256: the profile's
  unsigned map_level = 1;
  uint64_t hbm_bytes_each = 0;
  bool statistics = false;
};

int run_vfio_user(const std::string& profile, const VfioUserArguments& arguments);

}  // namespace neuron::transport

#endif
