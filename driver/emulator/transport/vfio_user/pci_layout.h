// SPDX-License-Identifier: Apache-2.0
// What a PCI function of each chip looks like from outside: identity, BARs, where its DMA engines
// lie.
//
// Callers: PciFunction. Immutable data; find_pci_layout returns false for an unknown device.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_PCI_LAYOUT_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_PCI_LAYOUT_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::transport {

struct PciLayout {
  uint16_t device = 0;
  uint8_t revision = 0;
  unsigned register_bar = 0;  // 2 in revision 255, where drivers expect the registers there
  uint64_t register_bytes = 0;
  static constexpr unsigned kMemoryBar = 4;
  unsigned stacks = 0;                    // of HBM
  uint64_t stack_bytes = 0;               // populated
  uint64_t stack_distance = 0;            // from one stack to the next in the memory BAR
  std::vector<uint64_t> stack_addresses;  // on the chip's bus
  unsigned cores = 0;
  unsigned descriptor_ms = 0;  // how long drivers wait for a descriptor of a copy of their own
  struct Window {
    uint64_t offset;   // in the register BAR
    uint64_t address;  // on the chip's bus
  };
  std::vector<Window> core_windows;
  std::vector<uint64_t> engines;  // register offsets of DMA engines
  uint64_t firmware_trigger = 0;  // offset of the register that has firmware reset or answer
  uint64_t firmware_version = 0;  // offset of the register that drivers poll all the time

  uint64_t memory_bytes() const { return stacks * stack_distance; }
  // Whether a write there tells a DMA engine of new descriptors.
  bool is_doorbell(uint64_t offset) const;
  // Bus address of an offset inside a core's window, where the memories of the cores are.
  bool core_address(uint64_t offset, uint64_t& address) const;
};

// `stack_bytes` 0 = what the chip has. False with a sentence in `error`.
bool find_pci_layout(uint16_t device, uint8_t revision, uint64_t stack_bytes, PciLayout& layout,
                     std::string& error);

// What a driver reads to number the functions, so that function `index` becomes /dev/neuron<index>.
uint32_t routing_id_of(uint16_t device, unsigned index);

}  // namespace neuron::transport

#endif
