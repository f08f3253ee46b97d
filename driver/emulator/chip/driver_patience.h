// SPDX-License-Identifier: Apache-2.0
// How long the host's driver waits for its own copies before it gives them up.
//
// Concepts: a driver gives up so many milliseconds for each descriptor, and what a copy that was
// given up reads and writes may be anybody's then. A driver whose register writes are answered when
// they are done does not count while it waits for that answer; whoever answers for the chip stops
// waiting at some time, too, and lets the driver go on. Callers: any thread. Cannot fail.
#ifndef DRIVER_EMULATOR_CHIP_DRIVER_PATIENCE_H
#define DRIVER_EMULATOR_CHIP_DRIVER_PATIENCE_H

#include <cstdint>

namespace neuron::chip {

struct DriverPatience {
  uint64_t descriptor_ns = 0;  // for each descriptor of a copy; 0: nobody ever gives up
  uint64_t answer_ns = 0;      // how long the driver may be kept in the doorbell's write
  // Doorbells of more descriptors are answered before they are executed.
  uint32_t answered_at_the_end = UINT32_MAX;

  // How long after the doorbell the first driver gives up a copy of so many descriptors; 0: never.
  uint64_t limit_ns(uint32_t descriptors) const {
    if (descriptor_ns == 0) return 0;
    const uint64_t patience = descriptor_ns * descriptors;
    return descriptors > answered_at_the_end ? patience : patience + answer_ns;
  }
};

}  // namespace neuron::chip

#endif
