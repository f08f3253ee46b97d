// SPDX-License-Identifier: Apache-2.0
// The configuration space of one PCI function: a type-0 header and a PCI Express capability.
//
// Concepts: 4096 bytes, each with a mask of bits that software may change. BARs answer sizing as
// hardware does. A write of the function-level reset bit is told to the caller and reads 0.
// Callers: PciFunction, on the connection's thread. Thread-safe: no. Fails: an access outside
// returns false (read gives all ones).
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_PCI_CONFIG_SPACE_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_PCI_CONFIG_SPACE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/emulator/transport/vfio_user/pci_layout.h"

namespace neuron::transport {

class PciConfigSpace {
 public:
  static constexpr size_t kBytes = 4096;

  explicit PciConfigSpace(const PciLayout& layout);

  bool read(uint64_t offset, std::span<std::byte> out) const;
  // True in `reset_requested`: the guest asks for a function-level reset.
  bool write(uint64_t offset, std::span<const std::byte> in, bool& reset_requested);
  void reset();

  bool bus_master() const;

 private:
  template <typename T>
  void put(size_t offset, T value, T writable = 0);
  void put_bar(unsigned bar, uint64_t bytes);

  std::array<std::byte, kBytes> bytes_{};
  std::array<std::byte, kBytes> initial_{};
  std::array<std::byte, kBytes> writable_{};
};

}  // namespace neuron::transport

#endif
