// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/io_space.h"

#include <sys/mman.h>

namespace neuron::service {

IoSpace::IoSpace() {
  for (Space* space : {&clients_, &own_}) {
    // Zero pages are free slots: the table costs memory only where it is used.
    void* memory = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) space->slots = static_cast<Slot*>(memory);
  }
}

IoSpace::~IoSpace() {
  for (Space* space : {&clients_, &own_}) {
    if (space->slots) ::munmap(space->slots, kSlots * sizeof(Slot));
  }
}

uint64_t IoSpace::Space::map(std::byte* memory, uint64_t size) {
  const uint64_t needed = slots_of(size);
  if (!slots || size == 0 || needed >= kSlots) return 0;
  const std::lock_guard lock(mutex);
  uint64_t first = cursor;
  uint64_t run = 0;
  for (uint64_t looked = 0; run < needed && looked < 2 * kSlots; ++looked) {
    if (first + run >= kSlots) {
      first = 1;
      run = 0;
    } else if (slots[first + run].end.load(std::memory_order_relaxed) != 0) {
      first += run + 1;
      run = 0;
    } else {
      ++run;
    }
  }
  if (run < needed) return 0;
  const uint64_t begin = first << kSlotShift;
  for (uint64_t i = first; i < first + needed; ++i) {
    slots[i].begin.store(begin, std::memory_order_relaxed);
    slots[i].delta.store(reinterpret_cast<uint64_t>(memory) - begin, std::memory_order_relaxed);
    // Publishes begin and delta; pairs with the load in translate.
    slots[i].end.store(begin + size, std::memory_order_release);
  }
  cursor = first + needed < kSlots ? first + needed : 1;
  return begin;
}

void IoSpace::Space::unmap(uint64_t address, uint64_t size) {
  const uint64_t first = address >> kSlotShift;
  const auto mark = [&](uint64_t end) {
    const std::lock_guard lock(mutex);
    for (uint64_t i = first; i < first + slots_of(size) && i < kSlots; ++i) slots[i].end.store(end);
  };
  // Two steps, so that no transfer that is still at work sees a slot change to another mapping.
  mark(kGoing);
  transfers.await();
  mark(0);
}

std::byte* IoSpace::Space::translate(uint64_t address, size_t length) {
  const uint64_t index = address >> kSlotShift;
  if (index >= kSlots) return nullptr;
  const Slot& slot = slots[index];
  // Pairs with the release in map: begin and delta belong to this end. Sequentially consistent with
  // the count of the transfer and the store in unmap (Transfers::begin).
  const uint64_t end = slot.end.load();
  if (address >= end || length > end - address ||
      address < slot.begin.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(address + slot.delta.load(std::memory_order_relaxed));
}

uint64_t IoSpace::map_own(std::byte* memory, uint64_t size) {
  const uint64_t address = own_.map(memory, size);
  return address == 0 ? 0 : kPrivate | address;
}

void IoSpace::unmap(uint64_t address, uint64_t size) {
  if (address & kPrivate) {
    own_.unmap(address & ~kPrivate, size);
  } else {
    clients_.unmap(address, size);
  }
}

std::byte* IoSpace::translate(uint64_t address, size_t length) {
  if (address & kPrivate) return own_.translate(address & ~kPrivate, length);
  return clients_.translate(address, length);
}

uint32_t IoSpace::begin_transfer() {
  return clients_.transfers.begin() << 16 | own_.transfers.begin();
}

void IoSpace::end_transfer(uint32_t begun) {
  own_.transfers.end(begun & 0xFFFF);
  clients_.transfers.end(begun >> 16);
}

}  // namespace neuron::service
