// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_reset.h"

#include <array>
#include <cerrno>
#include <mutex>

#include "driver/base/timed_mutex.h"
#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

// The driver waits at most two minutes for the firmware.
constexpr auto kPatience = std::chrono::minutes(4);

// One for each device. They belong to the process, as the driver's result does, and not to one of
// the objects that a device may have in it.
base::TimedMutex& turn_of(int device) {
  static std::array<base::TimedMutex, MAX_NEURON_DEVICE_COUNT> turns;
  return turns[static_cast<size_t>(device) % turns.size()];
}

}  // namespace

Result<void> reset_cores(const Device& device, uint32_t map, NRT_STATUS otherwise) {
  base::TimedMutex& turn = turn_of(device.index());
  if (!turn.try_lock_for(kPatience)) {
    return fail(NRT_TIMEOUT,
                "another reset of device {} by this process has not ended within {} minutes; see "
                "the driver's log, and reset the device with neuron-reset",
                device.index(), kPatience.count());
  }
  const std::lock_guard lock(turn, std::adopt_lock);
  uint32_t request = 0;
  int result = ndl_reset_ncs(device.index(), static_cast<int>(map), &request);
  if (result != 0) return driver_error(otherwise, result, "asking for a reset");
  uint8_t done = 0;
  // A result that a signal kept from being fetched would block every later reset.
  const base::Deadline deadline = base::Deadline::after(kPatience);
  do {
    result = ndl_ready_ncs(device.index(), request, &done);
  } while (result == -EINTR && !deadline.expired());
  if (result != 0 || done != 1) {
    return driver_error(otherwise, result, "waiting for the reset");
  }
  return {};
}

}  // namespace neuron::runtime
