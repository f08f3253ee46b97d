// SPDX-License-Identifier: Apache-2.0
// A reset that fails: the boot has a chip that goes off after some thousand accesses to registers.
#include <chrono>
#include <fstream>
#include <string>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

uint64_t failures(unsigned core) {
  uint64_t value = 0;
  std::ifstream file("/sys/class/neuron_device/neuron0/neuron_core" + std::to_string(core) +
                     "/stats/other_info/reset_fail_count/total");
  EXPECT(file >> value);
  return value;
}

// Asks for a reset of the core and waits for it.
bool reset_succeeds(const Device& device, unsigned core) {
  neuron_ioctl_device_reset request = {1u << core, 0};
  if (device.call(NEURON_IOCTL_NC_RESET, &request) != 0) return false;
  neuron_ioctl_device_ready ready = {request.request_id, 1};
  return device.call(NEURON_IOCTL_NC_RESET_READY, &ready) == 0 && ready.result == 0;
}

CASE("a reset that fails counts for the core that was to be reset, and for no other") {
  const Device device;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  int resets = 0;
  while (reset_succeeds(device, 1) && std::chrono::steady_clock::now() < end) ++resets;
  std::printf("# reset %d failed\n", resets + 1);
  EXPECT(resets > 0);
  EXPECT_EQ(failures(1), 1);
  EXPECT_EQ(failures(0), 0);
}

}  // namespace
}  // namespace neuron::guest
