// SPDX-License-Identifier: Apache-2.0
//
// The rings of one binding in device memory: a plan's descriptors with addresses filled in, and the
// table by which the SP program points the queues to them and writes the tensors' addresses that
// the program itself reads. Callers: executor, once per set of tensor addresses. Thread-safe:
// const. Owns the memory. Fails: NRT_RESOURCE when HBM is short; NRT_INVALID when the driver
// refuses a descriptor.
#ifndef RUNTIME_RINGS_DESCRIPTOR_RINGS_H
#define RUNTIME_RINGS_DESCRIPTOR_RINGS_H

#include <memory>
#include <span>

#include "runtime/device/device_memory.h"
#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

// 8 bytes of device memory from which the program reads the address of an input or output.
struct PortPointer {
  uint64_t place = 0;
  uint32_t variable = 0;  // index into the addresses
};
inline constexpr uint32_t kMaxPortPointers = 1024;  // of one program

class DescriptorRings {
 public:
  // `addresses`: by the indices of the plan's descriptors. Of `pointers` at most kMaxPortPointers.
  static Result<std::unique_ptr<DescriptorRings>> create(
      Device& device, uint32_t core, const RingPlan& plan, std::span<const uint64_t> addresses,
      std::span<const PortPointer> pointers = {});

  // Entries {u64 address, u32 value, u32 zero} of the ring table, of registers and of pointers; 0
  // entries for a program that has neither queues nor pointers.
  uint64_t table_address() const { return table_ == nullptr ? 0 : table_->address(); }
  uint32_t table_entries() const { return entries_; }

  // Gives every queue its ring lengths. The ring table sets the bases.
  Result<void> initialize_queues(const RingPlan& plan) const;

 private:
  struct TableEntry {
    uint64_t address;
    uint32_t value;
    uint32_t zero;
  };
  DescriptorRings() = default;
  Result<void> write_rings(Device& device, uint32_t core, const RingPlan& plan,
                           std::span<const uint64_t> addresses, std::vector<TableEntry>& entries);

  std::unique_ptr<DeviceMemory> rings_;
  std::unique_ptr<DeviceMemory> table_;
  uint32_t entries_ = 0;
};

}  // namespace neuron::runtime

#endif
