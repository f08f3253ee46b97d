// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/register_target.h"

#include <cstring>

namespace neuron::chip {
namespace {

bool aligned(uint64_t offset, uint64_t bytes) { return ((offset | bytes) & 3) == 0 && bytes != 0; }

}  // namespace

bool RegisterTarget::read(uint64_t offset, std::span<std::byte> out, const Access& access) {
  if (!aligned(offset, out.size()) || !accepts(offset, out.size(), false, access)) return false;
  for (size_t at = 0; at < out.size(); at += 4) {
    const uint32_t value = read_word(offset + at, access);
    std::memcpy(out.data() + at, &value, 4);
  }
  return true;
}

bool RegisterTarget::write(uint64_t offset, std::span<const std::byte> in, const Access& access) {
  if (!aligned(offset, in.size()) || !accepts(offset, in.size(), true, access)) return false;
  for (size_t at = 0; at < in.size(); at += 4) {
    uint32_t value;
    std::memcpy(&value, in.data() + at, 4);
    write_word(offset + at, value, access);
  }
  return true;
}

StoredRegisters::StoredRegisters(uint64_t bytes)
    : bytes_(bytes), pages_((bytes / 4 + kPageWords - 1) / kPageWords) {}

StoredRegisters::~StoredRegisters() {
  for (auto& page : pages_) delete page.load(std::memory_order_relaxed);
}

uint32_t StoredRegisters::load(uint64_t offset) const {
  const uint64_t word = offset / 4;
  // Acquire: pairs with the release of the page's publication in store().
  const Page* page = pages_[word / kPageWords].load(std::memory_order_acquire);
  return page == nullptr ? 0 : (*page)[word % kPageWords].load(std::memory_order_relaxed);
}

void StoredRegisters::store(uint64_t offset, uint32_t value) {
  const uint64_t word = offset / 4;
  std::atomic<Page*>& slot = pages_[word / kPageWords];
  Page* page = slot.load(std::memory_order_acquire);
  if (page == nullptr) {
    if (value == 0) return;
    Page* fresh = new Page{};
    // Release: pairs with the acquire loads of the page pointer, here and in load().
    if (slot.compare_exchange_strong(page, fresh, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      page = fresh;
    } else {
      delete fresh;
    }
  }
  (*page)[word % kPageWords].store(value, std::memory_order_relaxed);
}

void StoredRegisters::clear() {
  for (auto& slot : pages_) {
    Page* page = slot.load(std::memory_order_acquire);
    if (page == nullptr) continue;
    for (auto& word : *page) word.store(0, std::memory_order_relaxed);
  }
}

bool StoredRegisters::accepts(uint64_t offset, uint64_t bytes, bool, const Access&) {
  return offset < bytes_ && bytes <= bytes_ - offset;
}

uint32_t StoredRegisters::read_word(uint64_t offset, const Access&) { return load(offset); }

void StoredRegisters::write_word(uint64_t offset, uint32_t value, const Access&) {
  store(offset, value);
}

}  // namespace neuron::chip
