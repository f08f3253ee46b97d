// SPDX-License-Identifier: Apache-2.0
// One chip behind PCI: configuration space, register BAR, memory BAR, and the guest's memory for
// its DMA.
//
// Concepts: the guest's kernel driver owns the device; nothing of a driver is here. A register
// write executes descriptors, and stops queues, before it returns: what may take long the server
// answers first. What is mapped into the guest is the HBM's file and, at the highest map level, a
// file shaped like the register BAR for pages of DMA engines that only hold configuration.
// power_cycle() forgets everything and builds the chip anew: a client that kept the old files sees
// nothing of the next one's memory. Callers: VfioUserSession on the connection's thread;
// with_chip() and statistics from any. Owns chip and guest memory. Fails: create gives null with a
// sentence; an access outside a region returns false.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_PCI_FUNCTION_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_PCI_FUNCTION_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/transport/vfio_user/pci_config_space.h"
#include "driver/emulator/transport/vfio_user/pci_layout.h"
#include "driver/emulator/transport/vfio_user/vfio_user_memory.h"
#include "driver/emulator/transport/vfio_user/vfio_user_protocol.h"
#include "driver/emulator/transport/vfio_user/vfio_user_server.h"

namespace neuron::transport {

struct PciRegion {
  uint64_t bytes = 0;                        // 0: not there
  int file = -1;                             // what may be mapped; owned by the function
  std::vector<vfio_user::SparseArea> areas;  // of the file; empty with a file: all of it
};

// Relaxed counters: they are read for an operator, order does not matter.
struct PciStatistics {
  std::atomic<uint64_t> register_reads = 0;
  std::atomic<uint64_t> register_writes = 0;
  std::atomic<uint64_t> polls = 0;  // reads of the firmware's version, in neither count above
  std::atomic<uint64_t> doorbells = 0;
  std::atomic<uint64_t> before_doorbell = 0;  // register accesses until the first one, no polls
  std::atomic<uint64_t> memory_accesses = 0;  // of the memory BAR that trapped
  std::atomic<uint64_t> config_accesses = 0;
  std::atomic<uint64_t> odd_widths = 0;  // register accesses that are no aligned 32-bit words
  std::atomic<uint64_t> resets = 0;
  void clear();
};

class PciFunction {
 public:
  static std::unique_ptr<PciFunction> create(unsigned index, const VfioUserOptions& options,
                                             std::string& error);
  ~PciFunction();
  PciFunction(const PciFunction&) = delete;
  PciFunction& operator=(const PciFunction&) = delete;

  const PciLayout& layout() const { return layout_; }
  PciRegion region(unsigned index) const;
  uint64_t region_bytes(unsigned index) const;
  // Of a region that exists and inside it.
  bool read(unsigned region, uint64_t offset, std::span<std::byte> out);
  bool write(unsigned region, uint64_t offset, std::span<const std::byte> in);
  // Whether a write can take longer than a client waits for an answer.
  bool may_take_long(unsigned region, uint64_t offset, std::span<const std::byte> in) const;
  // Device reset: registers, rings, cores, configuration space. HBM keeps its contents.
  void reset();
  // As if the host was switched off and on. False with a sentence: the function is gone for good.
  bool power_cycle(std::string& error);

  bool has_bus_master() const { return config_->bus_master(); }
  GuestMemory& memory() { return *memory_; }
  void with_chip(const std::function<void(chip::Chip&)>& use);
  // What the chips of this function have written into guest memory; any thread.
  const chip::HostWrites& host_writes() const { return host_writes_; }
  const PciStatistics& statistics() const { return statistics_; }
  std::string describe() const;

 private:
  PciFunction(unsigned index, const VfioUserOptions& options);
  bool build(std::string& error);
  bool create_configuration_file(std::string& error);
  void read_registers(uint64_t offset, std::span<std::byte> out);
  void write_registers(uint64_t offset, std::span<const std::byte> in);
  // Of the memory BAR; null in the gaps between stacks.
  std::byte* memory_at(uint64_t offset, size_t length);
  bool off() const;
  void count(uint64_t offset, bool write);

  const unsigned index_;
  const VfioUserOptions options_;
  PciLayout layout_;
  std::unique_ptr<GuestMemory> memory_;
  chip::HostWrites host_writes_;
  std::unique_ptr<PciConfigSpace> config_;
  // Pages that the guest maps instead of asking the chip; -1 below the highest map level.
  int configuration_file_ = -1;
  std::vector<vfio_user::SparseArea> configuration_areas_;
  mutable std::mutex chip_mutex_;  // replacing chip_; the connection's thread alone does it
  std::unique_ptr<chip::Chip> chip_;
  bool memory_mappable_ = false;  // the HBM's file has the memory BAR's layout
  PciStatistics statistics_;
};

}  // namespace neuron::transport

#endif
