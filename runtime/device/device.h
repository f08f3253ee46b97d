// SPDX-License-Identifier: Apache-2.0
//
// One open Neuron device and the places on it that the runtime uses.
// Callers: session (opens), everything that allocates or programs. Thread-safe: const after open().
// Owns: a reference to the driver library's device; closing it frees all that was obtained through
// it. Borrows: the port, which lives as long as the reference.
// Fails: NRT_FAILURE with the driver's sentence; a chip of an unknown generation is refused.
#ifndef RUNTIME_DEVICE_DEVICE_H
#define RUNTIME_DEVICE_DEVICE_H

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "driver/ndl/port.h"
#include "hw/address_map.h"
#include "ndl/ndl.h"
#include "runtime/base/error.h"
#include "runtime/device/chip_table.h"
#include "runtime/observe/process_record.h"

namespace neuron::runtime {

class DeviceMemory;

class Device {
 public:
  static Result<std::unique_ptr<Device>> open(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  ndl_device_t* ndl() const { return ndl_; }
  ndl::DevicePort& port() const { return *port_; }
  uint32_t generation() const { return ndl_->device_type; }

  const ChipTable& chip() const { return chip_; }
  // Physical number of a core as processes claim and count them.
  uint32_t physical_core(uint32_t logical) const { return physical_[logical]; }
  // Of a physical core.
  CorePlace place(uint32_t core) const { return {&chip_, core}; }

  // The record of this process on this device, which operator tools read.
  ProcessRecord& record() const { return *record_; }

  // The allocations of this process on the device, for those who know only an address. DeviceMemory
  // adds and removes itself. memory_at(): the one that holds all of the bytes, null if there is
  // none. Any thread; the caller knows that the memory outlives what it does with it.
  void add_memory(DeviceMemory& memory);
  void remove_memory(const DeviceMemory& memory);
  DeviceMemory* memory_at(uint64_t address, uint64_t bytes) const;

  // PCI address of the host's network adapter nearest to the device. The driver is asked once:
  // where they sit does not change, and clients ask for each buffer. NRT_FAILURE: the host has
  // none.
  Result<std::string> nearest_adapter();

  Result<uint32_t> read_register(uint64_t bar0_offset) const;
  Result<void> write_register(uint64_t bar0_offset, uint32_t value) const;
  struct RegisterWrite {
    uint64_t bar0_offset;
    uint32_t value;
  };
  // At least one, in this order, with one call of the driver. Fails: NRT_HW_ERROR, of all.
  Result<void> write_registers(std::initializer_list<RegisterWrite> writes) const;
  // The same of at most three, but perhaps not at once: what a shared device refuses is told by the
  // next call, or by check_posted(). Allocates nothing.
  Result<void> post_registers(std::initializer_list<RegisterWrite> writes) const;
  Result<void> check_posted() const;

 private:
  void read_core_map();
  Device(int index, ndl_device_t* ndl, ndl::DevicePort* port, const ChipTable& chip)
      : index_(index), ndl_(ndl), port_(port), chip_(chip) {}

  int index_;
  ndl_device_t* ndl_;
  ndl::DevicePort* port_;
  const ChipTable& chip_;
  std::array<uint8_t, MAX_NC_PER_DEVICE> physical_{};
  mutable std::mutex memories_mutex_;           // memories_
  std::map<uint64_t, DeviceMemory*> memories_;  // by address
  std::mutex adapter_mutex_;                    // adapter_
  std::optional<Result<std::string>> adapter_;
  const std::unique_ptr<ProcessRecord> record_ = std::make_unique<ProcessRecord>();
};

}  // namespace neuron::runtime

#endif
