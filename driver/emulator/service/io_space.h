// SPDX-License-Identifier: Apache-2.0
// I/O address space of the host: what an IOMMU would be. Maps ranges of the process's memory to
// addresses that fit behind the host bit of a descriptor.
//
// Concepts: 2^20 slots of 16 MiB; a mapping takes whole consecutive slots, begins at the start of
// its first one and has exact bounds. Slots are handed out in rotation, so that an address that was
// kept too long meets nothing rather than other memory. Callers: map and unmap from any thread (a
// mutex); translate from any chip thread without a lock. Ownership: the memory stays the caller's;
// the caller unmaps it only when no transfer can use it. Fails: map returns 0.
#ifndef DRIVER_EMULATOR_SERVICE_IO_SPACE_H
#define DRIVER_EMULATOR_SERVICE_IO_SPACE_H

#include <atomic>
#include <mutex>

#include "driver/emulator/chip/host_memory.h"

namespace neuron::service {

class IoSpace final : public chip::HostMemory {
 public:
  IoSpace();
  ~IoSpace() override;
  IoSpace(const IoSpace&) = delete;
  IoSpace& operator=(const IoSpace&) = delete;

  bool valid() const { return slots_ != nullptr; }
  // I/O address of `memory` (without the host bit), 0 if no room is left.
  uint64_t map(std::byte* memory, uint64_t size);
  void unmap(uint64_t address, uint64_t size);

  std::byte* translate(uint64_t address, size_t length) override;

 private:
  static constexpr unsigned kSlotShift = 24;
  static constexpr uint64_t kSlots = uint64_t{1} << 20;
  struct Slot {
    std::atomic<uint64_t> begin;  // of the mapping that owns the slot
    std::atomic<uint64_t> end;    // 0: free
    std::atomic<uint64_t> delta;  // pointer minus I/O address, modulo 2^64
  };
  static uint64_t slots_of(uint64_t size) {
    return (size + (uint64_t{1} << kSlotShift) - 1) >> kSlotShift;
  }

  Slot* slots_ = nullptr;
  std::mutex mutex_;
  uint64_t cursor_ = 1;  // slot 0 stays free: address 0 is never valid
};

}  // namespace neuron::service

#endif
