// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/io_space.h"

#include <sys/mman.h>

namespace neuron::service {

IoSpace::IoSpace() {
  // Zero pages are free slots: the table costs memory only where it is used.
  void* memory = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) slots_ = static_cast<Slot*>(memory);
}

IoSpace::~IoSpace() {
  if (slots_) ::munmap(slots_, kSlots * sizeof(Slot));
}

uint64_t IoSpace::map(std::byte* memory, uint64_t size) {
  const uint64_t needed = slots_of(size);
  if (!slots_ || size == 0 || needed >= kSlots) return 0;
  const std::lock_guard lock(mutex_);
  uint64_t first = cursor_;
  uint64_t run = 0;
  for (uint64_t looked = 0; run < needed && looked < 2 * kSlots; ++looked) {
    if (first + run >= kSlots) {
      first = 1;
      run = 0;
    } else if (slots_[first + run].end.load(std::memory_order_relaxed) != 0) {
      first += run + 1;
      run = 0;
    } else {
      ++run;
    }
  }
  if (run < needed) return 0;
  const uint64_t begin = first << kSlotShift;
  for (uint64_t i = first; i < first + needed; ++i) {
    slots_[i].begin.store(begin, std::memory_order_relaxed);
    slots_[i].delta.store(reinterpret_cast<uint64_t>(memory) - begin, std::memory_order_relaxed);
    // Publishes begin and delta; pairs with the acquire in translate.
    slots_[i].end.store(begin + size, std::memory_order_release);
  }
  cursor_ = first + needed < kSlots ? first + needed : 1;
  return begin;
}

void IoSpace::unmap(uint64_t address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const uint64_t first = address >> kSlotShift;
  for (uint64_t i = first; i < first + slots_of(size) && i < kSlots; ++i) {
    slots_[i].end.store(0, std::memory_order_release);
  }
}

std::byte* IoSpace::translate(uint64_t address, size_t length) {
  const uint64_t index = address >> kSlotShift;
  if (index >= kSlots) return nullptr;
  const Slot& slot = slots_[index];
  // Pairs with the release in map: begin and delta belong to this end.
  const uint64_t end = slot.end.load(std::memory_order_acquire);
  if (address >= end || length > end - address ||
      address < slot.begin.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(address + slot.delta.load(std::memory_order_relaxed));
}

}  // namespace neuron::service
