// SPDX-License-Identifier: Apache-2.0
//
// The rings of one binding in device memory: a plan's descriptors with addresses filled in, and the
// table by which the SP program points the queues to them.
// Callers: executor, once per set of tensor addresses. Thread-safe: const. Owns the memory.
// Fails: NRT_RESOURCE when HBM is short; NRT_INVALID when the driver refuses a descriptor.
#ifndef RUNTIME_RINGS_DESCRIPTOR_RINGS_H
#define RUNTIME_RINGS_DESCRIPTOR_RINGS_H

#include <memory>
#include <span>

#include "runtime/device/device_memory.h"
#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

class DescriptorRings {
 public:
  // `addresses`: by the indices of the plan's descriptors.
  static Result<std::unique_ptr<DescriptorRings>> create(Device& device, uint32_t core,
                                                         const RingPlan& plan,
                                                         std::span<const uint64_t> addresses);

  // Entries {u64 register, u32 value, u32 zero} of the ring table; 0 entries for no queues.
  uint64_t table_address() const { return table_ == nullptr ? 0 : table_->address(); }
  uint32_t table_entries() const { return entries_; }

  // Gives every queue its ring lengths. The ring table sets the bases.
  Result<void> initialize_queues(const RingPlan& plan) const;

 private:
  DescriptorRings() = default;

  std::unique_ptr<DeviceMemory> rings_;
  std::unique_ptr<DeviceMemory> table_;
  uint32_t entries_ = 0;
};

}  // namespace neuron::runtime

#endif
