// SPDX-License-Identifier: Apache-2.0
//
// Handles of the C interface: what a nrt_tensor_t*, nrt_tensor_set_t* or nrt_model_t* really is.
// A handle is not an address. Its bits are kind, generation and slot number, a value that no
// pointer has, so a stale or foreign handle is recognised without touching memory. Callers: every C
// function. Thread-safe: all functions but clear(); pin and unpin take no lock. Owns the objects: a
// removed object is destroyed when its last pin goes, in that thread. Fails: insert() with
// NRT_RESOURCE when 2^20 handles are in use.
#ifndef RUNTIME_SESSION_HANDLE_TABLE_H
#define RUNTIME_SESSION_HANDLE_TABLE_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::runtime {

enum class HandleKind : uint8_t {
  kTensor = 1,
  kTensorSet = 2,
  kModel = 3,
  kTracker = 4,
  kCollective = 5
};

class HandleTable {
 public:
  static constexpr uint32_t kChunkSlots = 1024;
  static constexpr uint32_t kChunks = 1024;

  HandleTable() = default;
  ~HandleTable() { clear(); }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // Takes the object over, also when the call fails.
  template <class T>
  Result<void*> insert(HandleKind kind, std::unique_ptr<T> object) {
    auto result = insert_object(kind, object.get(), [](void* o) { delete static_cast<T*>(o); });
    if (result) static_cast<void>(object.release());
    return result;
  }

  // The object, protected from destruction until unpin(); null for a handle that names no object.
  void* pin(const void* handle, HandleKind kind) noexcept;
  void unpin(const void* handle) noexcept;

  // The handle is dead from here on. False if it already was, or never was one.
  bool remove(const void* handle, HandleKind kind) noexcept;

  // Destroys the objects that are left, models first, tensors last. Nothing may be pinned.
  void clear() noexcept;

  // Whether the bits are those of a handle of any kind, dead or alive.
  static bool is_handle(const void* handle) noexcept;

  uint32_t live() const { return live_.load(std::memory_order_relaxed); }

 private:
  // state: 63:32 generation, 31 live, 30:28 kind, 27:0 pins. The object is written before the state
  // that makes it live (release); pin() reads the state first (acquire).
  struct Slot {
    std::atomic<uint64_t> state{0};
    void* object = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  Result<void*> insert_object(HandleKind kind, void* object, void (*destroy)(void*));
  Slot* find(const void* handle) const noexcept;
  void finish(Slot& slot, uint32_t index) noexcept;

  // A chunk is published once (release) and lives as long as the table; find() loads it (acquire).
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::mutex mutex_;  // used_, free_
  uint32_t used_ = 0;
  std::vector<uint32_t> free_;
  std::atomic<uint32_t> live_{0};
};

// A pinned object; empty if the handle names none.
template <class T>
class Pin {
 public:
  Pin() = default;
  Pin(HandleTable& table, const void* handle, HandleKind kind) noexcept
      : table_(&table), handle_(handle), object_(static_cast<T*>(table.pin(handle, kind))) {}
  Pin(Pin&& other) noexcept
      : table_(other.table_),
        handle_(other.handle_),
        object_(std::exchange(other.object_, nullptr)) {}
  Pin& operator=(Pin&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(handle_, other.handle_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Pin() {
    if (object_ != nullptr) table_->unpin(handle_);
  }

  explicit operator bool() const { return object_ != nullptr; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }

 private:
  HandleTable* table_ = nullptr;
  const void* handle_ = nullptr;
  T* object_ = nullptr;
};

}  // namespace neuron::runtime

#endif
