// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/pci_config_space.h"

#include <cstring>

#include "hw/address_map.h"

namespace neuron::transport {
namespace {

constexpr size_t kCommand = 0x04;
constexpr uint16_t kBusMaster = 1u << 2;
// Memory, bus master, parity response, SERR, INTx disable.
constexpr uint16_t kCommandWritable = 0x0546;
constexpr size_t kStatus = 0x06;
constexpr uint16_t kHasCapabilities = 0x0010;
constexpr uint32_t kSystemPeripheral = 0x088000;  // class, subclass, interface
constexpr size_t kBars = 0x10;
constexpr uint32_t kMemory64Prefetchable = 0xC;
constexpr size_t kExpress = 0x40;
constexpr uint16_t kExpressVersion2Endpoint = 0x0002;
// Function-level reset, role-based errors, payloads of 256 bytes.
constexpr uint32_t kDeviceCapabilities = 1u << 28 | 1u << 15 | 1;
constexpr size_t kDeviceControl = kExpress + 0x08;
constexpr uint16_t kFunctionReset = 1u << 15;
constexpr uint32_t kLink = 16u << 4 | 4;  // 16 lanes of 16 GT/s

}  // namespace

template <typename T>
void PciConfigSpace::put(size_t offset, T value, T writable) {
  std::memcpy(initial_.data() + offset, &value, sizeof value);
  std::memcpy(writable_.data() + offset, &writable, sizeof writable);
}

void PciConfigSpace::put_bar(unsigned bar, uint64_t bytes) {
  put<uint64_t>(kBars + 4 * bar, kMemory64Prefetchable, ~(bytes - 1));
}

PciConfigSpace::PciConfigSpace(const PciLayout& layout) {
  put<uint16_t>(0x00, NEURON_PCI_VENDOR);
  put<uint16_t>(0x02, layout.device);
  put<uint16_t>(kCommand, 0, kCommandWritable);
  put<uint16_t>(kStatus, kHasCapabilities);
  put<uint32_t>(0x08, kSystemPeripheral << 8 | layout.revision);
  put<uint8_t>(0x0C, 0, 0xFF);  // cache line size
  put_bar(layout.register_bar, layout.register_bytes);
  put_bar(PciLayout::kMemoryBar, layout.memory_bytes());
  put<uint16_t>(0x2C, NEURON_PCI_VENDOR);
  put<uint16_t>(0x2E, layout.device);
  put<uint8_t>(0x34, kExpress);
  put<uint8_t>(0x3C, 0, 0xFF);  // interrupt line

  put<uint8_t>(kExpress, 0x10);
  put<uint16_t>(kExpress + 0x02, kExpressVersion2Endpoint);
  put<uint32_t>(kExpress + 0x04, kDeviceCapabilities);
  put<uint16_t>(kDeviceControl, 0x2810, 0x7FFF);
  put<uint32_t>(kExpress + 0x0C, kLink);
  put<uint16_t>(kExpress + 0x10, 0, 0x0FFB);
  put<uint16_t>(kExpress + 0x12, static_cast<uint16_t>(kLink));
  put<uint16_t>(kExpress + 0x28, 0, 0x001F);
  put<uint32_t>(kExpress + 0x2C, 0x1E);  // link speeds up to 16 GT/s
  put<uint16_t>(kExpress + 0x30, 4, 0x000F);
  reset();
}

void PciConfigSpace::reset() { bytes_ = initial_; }

bool PciConfigSpace::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset > kBytes || out.size() > kBytes - offset) {
    std::memset(out.data(), 0xFF, out.size());
    return false;
  }
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return true;
}

bool PciConfigSpace::write(uint64_t offset, std::span<const std::byte> in, bool& reset_requested) {
  reset_requested = false;
  if (offset > kBytes || in.size() > kBytes - offset) return false;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::byte mask = writable_[offset + i];
    bytes_[offset + i] = (bytes_[offset + i] & ~mask) | (in[i] & mask);
    if (offset + i == kDeviceControl + 1) {
      reset_requested = (in[i] & std::byte{kFunctionReset >> 8}) != std::byte{0};
    }
  }
  return true;
}

bool PciConfigSpace::bus_master() const {
  uint16_t command;
  std::memcpy(&command, bytes_.data() + kCommand, sizeof command);
  return (command & kBusMaster) != 0;
}

}  // namespace neuron::transport
