// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/service_manager.h"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

namespace neuron::serve {

std::chrono::microseconds watchdog_period() {
  uint64_t period = 0;
  return std::chrono::microseconds(sd_watchdog_enabled(0, &period) > 0 ? period : 0);
}

int passed_socket(std::string& error) {
  const int count = sd_listen_fds(0);
  if (count <= 0) return -1;
  if (count != 1) {
    error = "the service manager passed " + std::to_string(count) +
            " sockets; give neuron-serve exactly one (ListenStream= once)";
    return -1;
  }
  if (sd_is_socket(SD_LISTEN_FDS_START, AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
    error =
        "descriptor 3, passed by the service manager, is no listening stream socket; use "
        "ListenStream= with Accept=no";
    return -1;
  }
  return SD_LISTEN_FDS_START;
}

}  // namespace neuron::serve
