// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/handle_table.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <shared_mutex>
#include <vector>

#include "driver/ndl/error.h"
#include "driver/ndl/forget_lock.h"

namespace neuron::ndl {
namespace {

// Handle: 63:60 kind, 59:32 generation, 31:0 slot + 1.
constexpr int kKindShift = 60;
constexpr int kGenerationShift = 32;
constexpr uint64_t kGenerationMask = (1ull << 28) - 1;

template <class T>
class Slots {
 public:
  explicit Slots(uint64_t kind) : kind_(kind) {}

  uint64_t add(std::shared_ptr<T> entry) {
    uint32_t slot = 0;
    if (free_.empty()) {
      free_.reserve(slots_.size() + 1);  // so that removing an entry never allocates
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back({});
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot].entry = std::move(entry);
    return kind_ << kKindShift | slots_[slot].generation << kGenerationShift | (slot + 1);
  }

  std::shared_ptr<T>* find(uint64_t handle) {
    const uint64_t slot = (handle & 0xFFFFFFFF) - 1;
    if (handle >> kKindShift != kind_ || slot >= slots_.size()) return nullptr;
    Slot& found = slots_[slot];
    if (found.entry == nullptr ||
        found.generation != ((handle >> kGenerationShift) & kGenerationMask)) {
      return nullptr;
    }
    return &found.entry;
  }

  std::shared_ptr<T> take(uint64_t handle) {
    std::shared_ptr<T>* entry = find(handle);
    return entry == nullptr ? nullptr : take_slot((handle & 0xFFFFFFFF) - 1);
  }

  std::shared_ptr<T> take_slot(uint64_t slot) {
    slots_[slot].generation = (slots_[slot].generation + 1) & kGenerationMask;
    free_.push_back(static_cast<uint32_t>(slot));
    return std::move(slots_[slot].entry);
  }

  template <class F>
  void for_each(F&& use) {
    for (uint64_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].entry != nullptr) use(slot, slots_[slot].entry);
    }
  }

  size_t used() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    uint64_t generation = 1;
    std::shared_ptr<T> entry;
  };
  const uint64_t kind_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

struct Tables {
  std::shared_mutex mutex;  // both
  Slots<Allocation> allocations{5};
  Slots<Notification> notifications{6};
};

Tables& tables() {
  // Never destroyed: handles may be freed by static objects at exit.
  static auto* all = new Tables;
  return *all;
}

}  // namespace

int Allocation::map(OpenDevice& on, uint64_t length, void** address) {
  const std::lock_guard lock(mutex);
  if (info.mmap_va == nullptr) {
    void* mapped = nullptr;
    if (const int result = on.map(length, PROT_READ | PROT_WRITE, info.mmap_offset, &mapped);
        result != 0) {
      return result;
    }
    info.mmap_va = mapped;
    mapped_bytes = length;
  }
  *address = info.mmap_va;
  return 0;
}

int Allocation::unmap(OpenDevice& on) {
  const std::lock_guard lock(mutex);
  if (info.mmap_va == nullptr) return 0;
  void* address = info.mmap_va;
  info.mmap_va = nullptr;
  return on.unmap(address, mapped_bytes);
}

int HeldAllocation::check_range(uint64_t offset, uint64_t size, const char* what) const {
  const uint64_t room = allocation->info.size;
  if (offset <= room && size <= room - offset) return 0;
  return fail(-EINVAL,
              "device %d: %s of %llu bytes at offset %llu leaves the allocation of %llu bytes",
              device->index(), what, static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(offset), static_cast<unsigned long long>(room));
}

uint64_t add_allocation(std::shared_ptr<Allocation> allocation) {
  const std::unique_lock lock(tables().mutex);
  return tables().allocations.add(std::move(allocation));
}

uint64_t add_notification(std::shared_ptr<Notification> notification) {
  const std::unique_lock lock(tables().mutex);
  return tables().notifications.add(std::move(notification));
}

HeldAllocation find_allocation(uint64_t handle, const char* function) {
  {
    const std::shared_lock lock(tables().mutex);
    if (std::shared_ptr<Allocation>* entry = tables().allocations.find(handle)) {
      HeldAllocation held{*entry, (*entry)->device.lock()};
      if (held && held.device->is_inherited()) {
        fail(-EINVAL,
             "%s: %#llx is memory of the process before fork(); the child allocates its own",
             function, static_cast<unsigned long long>(handle));
        return {};
      }
      if (held) return held;
    }
  }
  fail(-EINVAL, "%s: %#llx is no memory handle, or one that was freed", function,
       static_cast<unsigned long long>(handle));
  return {};
}

std::shared_ptr<Notification> find_notification(uint64_t handle, const char* function) {
  {
    const std::shared_lock lock(tables().mutex);
    if (std::shared_ptr<Notification>* entry = tables().notifications.find(handle)) return *entry;
  }
  fail(-EINVAL, "%s: %#llx is no notification queue, or one that was destroyed", function,
       static_cast<unsigned long long>(handle));
  return nullptr;
}

std::shared_ptr<Allocation> remove_allocation(uint64_t handle) {
  const std::unique_lock lock(tables().mutex);
  return tables().allocations.take(handle);
}

std::shared_ptr<Notification> remove_notification(uint64_t handle) {
  const std::unique_lock lock(tables().mutex);
  return tables().notifications.take(handle);
}

bool find_mapping(const void* address, int* device_index, int* hbm_index) {
  const std::shared_lock lock(tables().mutex);
  bool found = false;
  const auto where = reinterpret_cast<uintptr_t>(address);
  tables().allocations.for_each([&](uint64_t, const std::shared_ptr<Allocation>& entry) {
    const std::lock_guard entry_lock(entry->mutex);
    const auto start = reinterpret_cast<uintptr_t>(entry->info.mmap_va);
    if (start == 0 || entry->info.host_memory != 0 || where - start >= entry->mapped_bytes) return;
    if (const DevicePointer device = entry->device.lock()) {
      *device_index = device->index();
      *hbm_index = static_cast<int>(entry->hbm);
      found = true;
    }
  });
  return found;
}

size_t handles_in_use() {
  const std::shared_lock lock(tables().mutex);
  return tables().allocations.used() + tables().notifications.used();
}

void forget_handles_of(const OpenDevice* device) {
  std::vector<std::shared_ptr<Allocation>> mapped;
  {
    const std::unique_lock lock(tables().mutex);
    const auto belongs = [&](const auto& entry) {
      const DevicePointer on = entry->device.lock();
      return on == nullptr || on.get() == device;
    };
    tables().allocations.for_each([&](uint64_t slot, std::shared_ptr<Allocation>& entry) {
      if (belongs(entry)) mapped.push_back(tables().allocations.take_slot(slot));
    });
    tables().notifications.for_each([&](uint64_t slot, std::shared_ptr<Notification>& entry) {
      if (belongs(entry)) tables().notifications.take_slot(slot);
    });
  }
  for (const std::shared_ptr<Allocation>& allocation : mapped) {
    if (const DevicePointer on = allocation->device.lock()) allocation->unmap(*on);
  }
}

void abandon_handles() {
  const std::unique_lock lock(tables().mutex);
  tables().allocations.for_each([](uint64_t slot, std::shared_ptr<Allocation>&) {
    // Leaked on purpose, like the devices of these allocations.
    static_cast<void>(new std::shared_ptr<Allocation>(tables().allocations.take_slot(slot)));
  });
  tables().notifications.for_each([](uint64_t slot, std::shared_ptr<Notification>&) {
    tables().notifications.take_slot(slot);
  });
}

void lock_handles_for_fork() { tables().mutex.lock(); }
void unlock_handles_after_fork(bool child) {
  if (child) {
    forget_lock(tables().mutex);
  } else {
    tables().mutex.unlock();
  }
}

}  // namespace neuron::ndl
