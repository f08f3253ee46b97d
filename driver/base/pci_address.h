// SPDX-License-Identifier: Apache-2.0
//
// The place of a device on PCI, as the kernel writes it: "0000:10:1b.0".
// Callers: any, any thread. Owns nothing.
#ifndef DRIVER_BASE_PCI_ADDRESS_H
#define DRIVER_BASE_PCI_ADDRESS_H

#include <cstdint>
#include <cstdio>
#include <string>

namespace neuron::base {

inline std::string pci_address(uint32_t domain, uint32_t bus, uint32_t slot, uint32_t function) {
  char text[40];  // four numbers of 32 bits have room
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", domain, bus, slot, function);
  return text;
}

}  // namespace neuron::base

#endif
