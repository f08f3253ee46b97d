// SPDX-License-Identifier: Apache-2.0
// Handles of the driver library: allocations and notification queues as numbers that go stale.
//
// A mem_handle or notification context of the C interface is kind, generation and slot in 64 bits,
// never an address, so a freed or invented handle is recognised. Callers: ndl_* functions.
// Thread-safe: every function. Entries are shared: a call that uses one keeps it alive while
// another thread frees it. Entries of a device are forgotten when it is closed; the driver has
// freed the memory by then.
#ifndef DRIVER_NDL_HANDLE_TABLE_H
#define DRIVER_NDL_HANDLE_TABLE_H

#include <cstdint>
#include <memory>
#include <mutex>

#include "driver/ndl/device_table.h"
#include "ndl/ndl_types.h"

namespace neuron::ndl {

struct Allocation {
  explicit Allocation(const DevicePointer& on) : device(on) {}

  // Maps at most once; `length` is the allocation's size except for a scratchpad.
  int map(OpenDevice& on, uint64_t length, void** address);
  int unmap(OpenDevice& on);

  std::weak_ptr<OpenDevice> device;
  ndl_mem_info_t info = {};  // mmap_va: mutex
  uint32_t hbm = 0;
  bool owned = true;  // freeing the handle also frees the driver's
  uint64_t mapped_bytes = 0;
  std::mutex mutex;
};

struct Notification {
  explicit Notification(const DevicePointer& on) : device(on) {}

  std::weak_ptr<OpenDevice> device;
  ndl_notification_context_t context = {};  // mem_handle is one of ours
};

// An allocation and its device; this object keeps both alive.
struct HeldAllocation {
  std::shared_ptr<Allocation> allocation;
  DevicePointer device;

  explicit operator bool() const { return device != nullptr; }
  uint64_t driver_handle() const { return allocation->info.driver_handle; }
  // Checks that [offset, offset + size) lies inside; else -EINVAL with a sentence that begins with
  // `what`.
  int check_range(uint64_t offset, uint64_t size, const char* what) const;
};

uint64_t add_allocation(std::shared_ptr<Allocation> allocation);
uint64_t add_notification(std::shared_ptr<Notification> notification);

// Makes a handle of ours for the buffer of a notification queue; freeing it leaves the driver's
// handle alone.
int adopt_notification_buffer(const DevicePointer& open, uint64_t driver_handle, uint32_t hbm,
                              uint32_t nc_id, uint64_t* mem_handle);

// Empty for a stale or invented handle, with -EINVAL's sentence recorded for `function`.
HeldAllocation find_allocation(uint64_t handle, const char* function);
std::shared_ptr<Notification> find_notification(uint64_t handle, const char* function);

// Takes the entry out; the handle is stale from here on.
std::shared_ptr<Allocation> remove_allocation(uint64_t handle);
std::shared_ptr<Notification> remove_notification(uint64_t handle);

// Device and HBM of a mapped address; false if no allocation is mapped there.
bool find_mapping(const void* address, int* device_index, int* hbm_index);

// Handles in use, of both kinds.
size_t handles_in_use();

// Called when a device was closed: unmaps its mappings and makes its handles stale.
void forget_handles_of(const OpenDevice* device);

// For fork(): makes all handles stale in the child and calls no device.
void abandon_handles();
void lock_handles_for_fork();
void unlock_handles_after_fork(bool child);

}  // namespace neuron::ndl

#endif
