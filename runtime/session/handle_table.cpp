// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/handle_table.h"

namespace neuron::runtime {
namespace {

// Handle: 63:60 = 5, 59:56 kind, 55:24 generation, 23:0 slot. Bits 63:47 of a user-space address
// are zero, so no pointer of any other origin looks like one.
constexpr uint64_t kMark = 5;
constexpr uint64_t kLive = 1ull << 31;
constexpr uint64_t kPins = (1ull << 28) - 1;

uint64_t bits_of(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
uint32_t index_of(const void* handle) { return bits_of(handle) & 0xFFFFFF; }

// The state that the handle's slot must have, pins aside.
uint64_t expected_state(const void* handle, HandleKind kind) {
  const uint64_t generation = (bits_of(handle) >> 24) & 0xFFFFFFFF;
  return generation << 32 | kLive | static_cast<uint64_t>(kind) << 28;
}

}  // namespace

bool HandleTable::is_handle(const void* handle) noexcept { return bits_of(handle) >> 60 == kMark; }

HandleTable::Slot* HandleTable::find(const void* handle) const noexcept {
  if (!is_handle(handle)) return nullptr;
  const uint32_t index = index_of(handle);
  if (index >= kChunks * kChunkSlots) return nullptr;
  Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &(*chunk)[index % kChunkSlots];
}

Result<void*> HandleTable::insert_object(HandleKind kind, void* object, void (*destroy)(void*)) {
  uint32_t index = 0;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kChunks * kChunkSlots) {
        return fail(NRT_RESOURCE,
                    "{} tensors, tensor sets and models exist, which is the most a process may "
                    "have; free some",
                    used_);
      }
      // Reserves room for every slot, so that freeing a slot never allocates.
      if (used_ % kChunkSlots == 0) {
        free_.reserve(used_ + kChunkSlots);
        chunks_[used_ / kChunkSlots].store(new Chunk, std::memory_order_release);
      }
      index = used_++;
    }
  }
  Slot& slot = (*chunks_[index / kChunkSlots].load(std::memory_order_acquire))[index % kChunkSlots];
  slot.object = object;
  slot.destroy = destroy;
  const uint64_t generation = slot.state.load(std::memory_order_relaxed) >> 32;
  // Release: publishes object and destroy to the acquire in pin() and remove().
  slot.state.store(generation << 32 | kLive | static_cast<uint64_t>(kind) << 28,
                   std::memory_order_release);
  live_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t handle =
      kMark << 60 | static_cast<uint64_t>(kind) << 56 | generation << 24 | index;
  return reinterpret_cast<void*>(handle);
}

void* HandleTable::pin(const void* handle, HandleKind kind) noexcept {
  Slot* slot = find(handle);
  if (slot == nullptr) return nullptr;
  const uint64_t expected = expected_state(handle, kind);
  uint64_t state = slot->state.load(std::memory_order_acquire);
  while ((state & ~kPins) == expected) {
    // Acquire: pairs with the release of insert_object().
    if (slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) {
      return slot->object;
    }
  }
  return nullptr;
}

void HandleTable::unpin(const void* handle) noexcept {
  Slot* slot = find(handle);
  // Acquire-release: the last pin of a removed object sees what all other users did to it.
  const uint64_t before = slot->state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kLive) == 0 && (before & kPins) == 1) finish(*slot, index_of(handle));
}

bool HandleTable::remove(const void* handle, HandleKind kind) noexcept {
  Slot* slot = find(handle);
  if (slot == nullptr) return false;
  const uint64_t expected = expected_state(handle, kind);
  uint64_t state = slot->state.load(std::memory_order_acquire);
  while ((state & ~kPins) == expected) {
    // Acquire-release: pairs with insert_object() and with unpin() of other users.
    if (slot->state.compare_exchange_weak(state, state & ~kLive, std::memory_order_acq_rel)) {
      if ((state & kPins) == 0) finish(*slot, index_of(handle));
      return true;
    }
  }
  return false;
}

void HandleTable::finish(Slot& slot, uint32_t index) noexcept {
  void* object = std::exchange(slot.object, nullptr);
  slot.destroy(object);
  const uint64_t generation = ((slot.state.load(std::memory_order_relaxed) >> 32) + 1) & 0xFFFFFFFF;
  slot.state.store(generation << 32, std::memory_order_release);
  live_.fetch_sub(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  free_.push_back(index);
}

void HandleTable::clear() noexcept {
  for (const HandleKind kind : {HandleKind::kCollective, HandleKind::kModel, HandleKind::kTensorSet,
                                HandleKind::kTensor, HandleKind::kTracker}) {
    for (uint32_t index = 0; index < used_; ++index) {
      Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
      const uint64_t state = (*chunk)[index % kChunkSlots].state.load(std::memory_order_acquire);
      if ((state & kLive) == 0 || ((state >> 28) & 7) != static_cast<uint64_t>(kind)) continue;
      const uint64_t handle =
          kMark << 60 | static_cast<uint64_t>(kind) << 56 | (state >> 32) << 24 | index;
      remove(reinterpret_cast<void*>(handle), kind);
    }
  }
  for (auto& entry : chunks_) delete entry.exchange(nullptr, std::memory_order_acq_rel);
  used_ = 0;
  free_.clear();
}

}  // namespace neuron::runtime
