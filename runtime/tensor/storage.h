// SPDX-License-Identifier: Apache-2.0
//
// The bytes behind one or more tensors: HBM, host memory that the device reaches, host memory of
// this library, or a buffer of the caller.
// Callers: Tensor. Shared by a tensor and its slices; the last one frees it. Thread-safe: yes,
// calls on the same bytes excepted. Owns its memory, a caller's buffer excepted. Fails:
// NRT_RESOURCE, NRT_HW_ERROR, NRT_INVALID; ranges are checked by Tensor.
#ifndef RUNTIME_TENSOR_STORAGE_H
#define RUNTIME_TENSOR_STORAGE_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/host_memory.h"
#include "runtime/device/device_memory.h"
#include "runtime/tensor/mapping_table.h"

namespace neuron::runtime {

enum class StorageKind : uint8_t { kDevice, kPinned, kPlain, kAttached };

class Storage {
 public:
  static Result<std::shared_ptr<Storage>> device(Device& device, uint32_t core, uint64_t size,
                                                 MappingTable& mappings, const char* name);
  static Result<std::shared_ptr<Storage>> pinned(Device& device, uint32_t core, uint64_t size,
                                                 MappingTable& mappings, const char* name);
  static Result<std::shared_ptr<Storage>> plain(uint64_t size, const char* name);
  static std::shared_ptr<Storage> attached(void* buffer, uint64_t size);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  StorageKind kind() const { return kind_; }
  uint64_t size() const { return size_; }
  // True if DMA of a device reaches the storage; memory() is then not null.
  bool reachable() const { return memory_ != nullptr; }
  DeviceMemory* memory() const { return memory_.get(); }

  // Address in this process; a device allocation is mapped by the first call.
  Result<std::byte*> address();
  // The address of bytes that the host is about to read or write: a caller's buffer may be gone by
  // now.
  Result<std::byte*> reach(uint64_t offset, uint64_t size, HostUse use);

  // `from` and `to` are checked, since they may be any address that a program names.
  Result<void> write(const void* from, uint64_t offset, uint64_t size);
  Result<void> read(void* to, uint64_t offset, uint64_t size);
  Result<void> fill(uint64_t offset, uint64_t size, int value);
  static Result<void> copy(Storage& source, uint64_t source_offset, Storage& target,
                           uint64_t target_offset, uint64_t size);

 private:
  Storage(StorageKind kind, uint64_t size) : kind_(kind), size_(size) {}
  static Result<std::shared_ptr<Storage>> allocate(StorageKind kind, Device& device,
                                                   const MemoryRequest& request,
                                                   MappingTable& mappings);

  StorageKind kind_;
  uint64_t size_;
  std::unique_ptr<DeviceMemory> memory_;  // kDevice, kPinned
  MappingTable* mappings_ = nullptr;
  std::atomic<std::byte*> host_{nullptr};  // written once; release by address(), acquire by readers
};

}  // namespace neuron::runtime

#endif
