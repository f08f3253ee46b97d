// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/storage.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace neuron::runtime {

Result<std::shared_ptr<Storage>> Storage::allocate(StorageKind kind, Device& device,
                                                   const MemoryRequest& request,
                                                   MappingTable& mappings) {
  NEURON_TRY(memory, DeviceMemory::allocate(device, request));
  std::shared_ptr<Storage> storage(new Storage(kind, request.size));
  storage->memory_ = std::move(memory);
  storage->mappings_ = &mappings;
  return storage;
}

Result<std::shared_ptr<Storage>> Storage::device(Device& device, uint32_t core, uint64_t size,
                                                 MappingTable& mappings, const char* name) {
  return allocate(StorageKind::kDevice, device,
                  {.size = size,
                   .core = core,
                   .category = NEURON_MEMALLOC_TYPE_TENSORS_DEVICE,
                   .purpose = name},
                  mappings);
}

Result<std::shared_ptr<Storage>> Storage::pinned(Device& device, uint32_t core, uint64_t size,
                                                 MappingTable& mappings, const char* name) {
  return allocate(StorageKind::kPinned, device,
                  {.size = size,
                   .host = true,
                   .core = core,
                   .category = NEURON_MEMALLOC_TYPE_TENSORS_HOST,
                   .purpose = name},
                  mappings);
}

Result<std::shared_ptr<Storage>> Storage::plain(uint64_t size, const char* name) {
  if (size > PTRDIFF_MAX - 63) {
    return fail(
        NRT_RESOURCE,
        "{} bytes of host memory were asked for tensor '{}'; no process has as many, ask for less",
        size, name);
  }
  void* memory = std::aligned_alloc(64, (size + 63) / 64 * 64);
  if (memory == nullptr) {
    return fail(NRT_RESOURCE,
                "{} bytes of host memory for tensor '{}' cannot be had; free tensors, or raise the "
                "limit of address space (ulimit -v)",
                size, name);
  }
  std::shared_ptr<Storage> storage(new Storage(StorageKind::kPlain, size));
  storage->host_.store(static_cast<std::byte*>(memory), std::memory_order_release);
  return storage;
}

std::shared_ptr<Storage> Storage::attached(void* buffer, uint64_t size) {
  std::shared_ptr<Storage> storage(new Storage(StorageKind::kAttached, size));
  storage->host_.store(static_cast<std::byte*>(buffer), std::memory_order_release);
  return storage;
}

Storage::~Storage() {
  std::byte* host = host_.load(std::memory_order_acquire);
  if (kind_ == StorageKind::kPlain) std::free(host);
  if (memory_ != nullptr && host != nullptr) mappings_->remove(host);
}

Result<std::byte*> Storage::address() {
  if (std::byte* host = host_.load(std::memory_order_acquire)) return host;
  NEURON_TRY(mapping, memory_->map());
  // Two threads that both make the first call get the same mapping and register the same range.
  mappings_->add(mapping, size_);
  host_.store(mapping, std::memory_order_release);
  return mapping;
}

Result<std::byte*> Storage::reach(uint64_t offset, uint64_t size, HostUse use) {
  NEURON_TRY(host, address());
  if (kind_ == StorageKind::kAttached) {
    if (auto sound = check_host_memory(host + offset, size, use); !sound) {
      return sound.error().with("a buffer that was attached to a tensor");
    }
  }
  return host + offset;
}

Result<void> Storage::write(const void* from, uint64_t offset, uint64_t size) {
  NEURON_CHECK(check_host_memory(from, size, HostUse::kRead));
  if (kind_ == StorageKind::kDevice) return memory_->write(from, offset, size);
  NEURON_TRY(host, reach(offset, size, HostUse::kWritten));
  std::memmove(host, from, size);
  return {};
}

Result<void> Storage::read(void* to, uint64_t offset, uint64_t size) {
  NEURON_CHECK(check_host_memory(to, size, HostUse::kWritten));
  if (kind_ == StorageKind::kDevice) return memory_->read(to, offset, size);
  NEURON_TRY(host, reach(offset, size, HostUse::kRead));
  std::memmove(to, host, size);
  return {};
}

Result<void> Storage::fill(uint64_t offset, uint64_t size, int value) {
  if (kind_ == StorageKind::kDevice) return memory_->fill(offset, size, value & 0xFF);
  NEURON_TRY(host, reach(offset, size, HostUse::kWritten));
  std::memset(host, value, size);
  return {};
}

Result<void> Storage::copy(Storage& source, uint64_t source_offset, Storage& target,
                           uint64_t target_offset, uint64_t size) {
  if (source.kind_ == StorageKind::kDevice && target.kind_ == StorageKind::kDevice) {
    return target.memory_->copy(*source.memory_, source_offset, target_offset, size);
  }
  if (source.kind_ == StorageKind::kDevice) {
    NEURON_TRY(host, target.reach(target_offset, size, HostUse::kWritten));
    return source.memory_->read(host, source_offset, size);
  }
  NEURON_TRY(from, source.reach(source_offset, size, HostUse::kRead));
  if (target.kind_ == StorageKind::kDevice) return target.memory_->write(from, target_offset, size);
  NEURON_TRY(to, target.reach(target_offset, size, HostUse::kWritten));
  std::memmove(to, from, size);
  return {};
}

}  // namespace neuron::runtime
