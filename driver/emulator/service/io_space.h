// SPDX-License-Identifier: Apache-2.0
// I/O address spaces of the host: what an IOMMU would be. Maps ranges of the process's memory to
// addresses that fit behind the host bit of a descriptor.
//
// Concepts: two spaces that do not overlap. Every DMA queue reaches the *clients'* space: memory
// that was handed out. Only the queues that the driver keeps for itself reach its *own* one too:
// their rings and markers, and the buffers of copies, which may be the heap of a daemon. So no
// address that a client writes into a descriptor leads there. A space has 2^19 slots of 16 MiB; a
// mapping takes whole consecutive slots, begins at the start of its first one and has exact bounds.
// Slots are handed out in rotation, so that an address that was kept too long meets nothing rather
// than other memory. Callers: map and unmap from any thread (a mutex); translate from any chip
// thread, within a transfer, without a lock. Ownership: the memory stays the caller's; unmap waits
// for transfers that have begun, and afterwards nothing reaches the memory. Fails: map returns 0.
#ifndef DRIVER_EMULATOR_SERVICE_IO_SPACE_H
#define DRIVER_EMULATOR_SERVICE_IO_SPACE_H

#include <atomic>
#include <mutex>

#include "driver/emulator/chip/host_memory.h"
#include "driver/emulator/service/transfers.h"

namespace neuron::service {

// Both spaces, as the driver's own queues see them.
class IoSpace final : public chip::HostMemory {
 public:
  IoSpace();
  ~IoSpace() override;
  IoSpace(const IoSpace&) = delete;
  IoSpace& operator=(const IoSpace&) = delete;

  bool valid() const { return clients_.slots != nullptr && own_.slots != nullptr; }
  // I/O address of `memory` (without the host bit), 0 if no room is left.
  uint64_t map(std::byte* memory, uint64_t size) { return clients_.map(memory, size); }
  // The same in the driver's own space.
  uint64_t map_own(std::byte* memory, uint64_t size);
  // Returns when no transfer uses the memory any more. Not within a transfer.
  void unmap(uint64_t address, uint64_t size);
  // Returns when every transfer of any queue has ended that has begun by now. Not within one.
  void await_transfers() { clients_.transfers.await(); }

  std::byte* translate(uint64_t address, size_t length) override;
  uint32_t begin_transfer() override;
  void end_transfer(uint32_t begun) override;

  // The clients' space alone: for all other queues, engines and registers.
  chip::HostMemory& clients() { return clients_; }

 private:
  static constexpr unsigned kSlotShift = 24;
  static constexpr uint64_t kSlots = uint64_t{1} << 19;
  static constexpr uint64_t kPrivate = kSlots << kSlotShift;  // this bit: the driver's own space
  // A slot whose mapping is being taken away: its end is no address, and it is not free.
  static constexpr uint64_t kGoing = 1;

  struct Slot {
    std::atomic<uint64_t> begin;  // of the mapping that owns the slot
    std::atomic<uint64_t> end;    // 0: free
    std::atomic<uint64_t> delta;  // pointer minus I/O address, modulo 2^64
  };
  struct Space final : chip::HostMemory {
    uint64_t map(std::byte* memory, uint64_t size);
    void unmap(uint64_t address, uint64_t size);
    std::byte* translate(uint64_t address, size_t length) override;
    uint32_t begin_transfer() override { return transfers.begin(); }
    void end_transfer(uint32_t begun) override { transfers.end(begun); }

    Slot* slots = nullptr;
    std::mutex mutex;
    uint64_t cursor = 1;  // slot 0 stays free: address 0 is never valid
    Transfers transfers;
  };
  static uint64_t slots_of(uint64_t size) {
    return (size + (uint64_t{1} << kSlotShift) - 1) >> kSlotShift;
  }

  Space clients_;
  Space own_;
};

}  // namespace neuron::service

#endif
