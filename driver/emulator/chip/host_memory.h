// SPDX-License-Identifier: Apache-2.0
// The host's memory as the chip sees it (device addresses with the host bit): given to the chip by
// its host.
//
// In a process it maps I/O virtual addresses that the service handed out to pointers; behind PCI it
// is guest memory. Callers: any chip thread. Thread-safe: yes. Ownership: a range stays valid until
// its owner has unmapped it, and the owner unmaps only when no transfer can use it.
#ifndef DRIVER_EMULATOR_CHIP_HOST_MEMORY_H
#define DRIVER_EMULATOR_CHIP_HOST_MEMORY_H

#include <cstddef>
#include <cstdint>

namespace neuron::chip {

class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // `address` has the host bit removed. Null if any byte of [address, address + length) is not
  // mapped.
  virtual std::byte* translate(uint64_t address, size_t length) = 0;
};

}  // namespace neuron::chip

#endif
