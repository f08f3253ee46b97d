// SPDX-License-Identifier: Apache-2.0
// The host's memory as the chip sees it (device addresses with the host bit): given to the chip by
// its host.
//
// In a process it maps I/O virtual addresses that the service handed out to pointers; behind PCI it
// is guest memory. Callers: any chip thread. Thread-safe: yes. Ownership: a range stays valid until
// its owner has unmapped it, and longer for a transfer that began before: unmapping waits for it.
#ifndef DRIVER_EMULATOR_CHIP_HOST_MEMORY_H
#define DRIVER_EMULATOR_CHIP_HOST_MEMORY_H

#include <cstddef>
#include <cstdint>

namespace neuron::chip {

class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // `address` has the host bit removed. Null if any byte of [address, address + length) is not
  // mapped. The pointer is good until the transfer ends in which it was asked for.
  virtual std::byte* translate(uint64_t address, size_t length) = 0;

  // A transfer of this thread begins; the answer goes back to end_transfer. Transfers are short: an
  // owner that unmaps waits for those that have begun.
  virtual uint32_t begin_transfer() { return 0; }
  virtual void end_transfer(uint32_t begun) { (void)begun; }

  // Of a chip without a host: nothing is mapped.
  static HostMemory& none();
};

inline HostMemory& HostMemory::none() {
  static struct None final : HostMemory {
    std::byte* translate(uint64_t, size_t) override { return nullptr; }
  } none;
  return none;
}

// A transfer in a scope. It can be renewed: what was translated before is then no longer good.
class Transfer {
 public:
  explicit Transfer(HostMemory& memory) : memory_(memory), begun_(memory.begin_transfer()) {}
  ~Transfer() { memory_.end_transfer(begun_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  void renew() {
    memory_.end_transfer(begun_);
    begun_ = memory_.begin_transfer();
  }

 private:
  HostMemory& memory_;
  uint32_t begun_;
};

}  // namespace neuron::chip

#endif
