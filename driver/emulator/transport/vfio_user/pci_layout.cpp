// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/pci_layout.h"

#include <algorithm>

#include "hw/address_map.h"
#include "hw/udma.h"

namespace neuron::transport {
namespace {

constexpr unsigned kPermuted = 16;
// The driver's number of a function, by its routing id.
constexpr uint8_t kTrn1Numbers[kPermuted] = {0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10};
constexpr uint8_t kTrn2Numbers[kPermuted] = {0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10};
// Of trn2 and trn3 in revision 255, whose drivers take all of a BAR, a power of two, for memory.
constexpr uint64_t kSimulatedStack = uint64_t{16} << 30;
constexpr uint64_t kSmallestStack = uint64_t{64} << 20;
constexpr uint64_t kQueuesFirst = 0x1000;
constexpr uint64_t kQueueStride = 0x1000;

void describe_v2(PciLayout& layout) {
  layout.register_bytes = NEURON_V2_BAR0_SIZE;
  layout.stacks = NEURON_V2_HBM_COUNT;
  layout.stack_bytes = layout.stack_distance = NEURON_V2_HBM_SIZE;
  for (uint64_t i = 0; i < layout.stacks; ++i) {
    layout.stack_addresses.push_back(i * NEURON_V2_HBM_STRIDE);
  }
  layout.firmware_trigger = NEURON_V2_MISC_RAM + NEURON_FW_TRIGGER;
  layout.firmware_version = NEURON_V2_MISC_RAM + NEURON_FW_API_VERSION;
  layout.cores = NEURON_V2_CORES;
  layout.descriptor_ms = 40;
  for (unsigned i = 0; i < layout.cores; ++i) {
    const uint64_t window = NEURON_V2_CORE_WINDOW(i);
    layout.core_windows.push_back({window, NEURON_V2_BAR0_DEVICE_BASE + window});
  }
  for (unsigned i = 0; i < NEURON_V2_DMA_ENGINES; ++i) {
    layout.engines.push_back(NEURON_V2_UDMA(i));
  }
}

// Generations 3 and 4 differ in the size of an HBM stack.
void describe_two_dies(PciLayout& layout, uint64_t stack_bytes) {
  layout.register_bytes = NEURON_V3_BAR0_SIZE;
  layout.stacks = NEURON_V3_HBM_COUNT;
  layout.stack_bytes = stack_bytes;
  layout.stack_distance = NEURON_V3_HBM_WINDOW;
  for (uint64_t i = 0; i < layout.stacks; ++i) {
    layout.stack_addresses.push_back(NEURON_V3_HBM_BASE(i));
  }
  layout.firmware_trigger = NEURON_V3_MISC_RAM + NEURON_FW_TRIGGER;
  layout.firmware_version = NEURON_V3_MISC_RAM + NEURON_FW_API_VERSION;
  layout.cores = NEURON_V3_CORES;
  layout.descriptor_ms = 80;
  for (uint64_t i = 0; i < layout.cores; ++i) {
    layout.core_windows.push_back({NEURON_V3_CORE_WINDOW(i), NEURON_V3_CORE_DEVICE(i)});
  }
  for (unsigned i = 0; i < NEURON_V3_DMA_ENGINES; ++i) {
    layout.engines.push_back(NEURON_V3_UDMA(i));
  }
}

bool is_trn3(uint16_t device) {
  return device == NEURON_PCI_DEVICE_TRN3 || device == NEURON_PCI_DEVICE_TRN3_SECOND;
}

bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

bool PciLayout::is_doorbell(uint64_t offset) const {
  auto engine = std::upper_bound(engines.begin(), engines.end(), offset);
  if (engine == engines.begin()) return false;
  const uint64_t inside = offset - *--engine;
  if (inside >= NEURON_UDMA_SIZE) return false;
  const uint64_t half = inside % NEURON_UDMA_S2M;
  return half >= kQueuesFirst && half < kQueuesFirst + NEURON_DMA_QUEUES * kQueueStride &&
         half % kQueueStride == NEURON_UDMAQ_TAIL_INC;
}

bool PciLayout::core_address(uint64_t offset, uint64_t& address) const {
  for (const Window& window : core_windows) {
    if (offset < window.offset || offset - window.offset >= NEURON_V2_CORE_WINDOW_SIZE) continue;
    address = window.address + (offset - window.offset);
    return true;
  }
  return false;
}

bool find_pci_layout(uint16_t device, uint8_t revision, uint64_t stack_bytes, PciLayout& layout,
                     std::string& error) {
  layout = {};
  layout.device = device;
  layout.revision = revision;
  if (device == NEURON_PCI_DEVICE_TRN1 || device == NEURON_PCI_DEVICE_INF2) {
    describe_v2(layout);
  } else if (device == NEURON_PCI_DEVICE_TRN2) {
    describe_two_dies(layout, NEURON_V3_HBM_SIZE);
  } else if (is_trn3(device)) {
    describe_two_dies(layout, NEURON_V4_HBM_SIZE);
  } else {
    error = "there is no chip with PCI device id " + std::to_string(device) + "; known are " +
            std::to_string(NEURON_PCI_DEVICE_TRN1) + " (trn1), " +
            std::to_string(NEURON_PCI_DEVICE_INF2) + " (inf2), " +
            std::to_string(NEURON_PCI_DEVICE_TRN2) + " (trn2), " +
            std::to_string(NEURON_PCI_DEVICE_TRN3) + " and " +
            std::to_string(NEURON_PCI_DEVICE_TRN3_SECOND) + " (trn3)";
    return false;
  }
  const bool sized =
      revision == NEURON_PCI_REVISION_QEMU && (device == NEURON_PCI_DEVICE_TRN2 || is_trn3(device));
  if (stack_bytes == 0 && sized) stack_bytes = kSimulatedStack;
  if (stack_bytes != 0) {
    if (!sized) {
      error =
          "only trn2 and trn3 in revision 255 have HBM of a size to choose; drivers of all others "
          "rely on " +
          std::to_string(layout.stack_bytes) + " bytes a stack";
      return false;
    }
    if (stack_bytes > layout.stack_bytes || !is_power_of_two(stack_bytes) ||
        stack_bytes < kSmallestStack) {
      error = "an HBM stack of " + std::to_string(stack_bytes) +
              " bytes cannot be a part of a BAR: take a power of two from " +
              std::to_string(kSmallestStack) + " to " + std::to_string(layout.stack_bytes);
      return false;
    }
    // Drivers divide the BAR by the number of stacks.
    layout.stack_bytes = layout.stack_distance = stack_bytes;
  }
  // Driver 2.24 looks for the registers of such models in BAR 2; 2.25, the first that knows trn3,
  // in BAR 0 of generations 3 and 4.
  if (revision == NEURON_PCI_REVISION_QEMU && !is_trn3(device)) layout.register_bar = 2;
  std::sort(layout.engines.begin(), layout.engines.end());
  return true;
}

uint32_t routing_id_of(uint16_t device, unsigned index) {
  const uint8_t* numbers = device == NEURON_PCI_DEVICE_TRN1   ? kTrn1Numbers
                           : device == NEURON_PCI_DEVICE_TRN2 ? kTrn2Numbers
                                                              : nullptr;
  if (numbers == nullptr) return index;
  const uint8_t* found = std::find(numbers, numbers + kPermuted, index % kPermuted);
  return index - index % kPermuted + static_cast<uint32_t>(found - numbers);
}

}  // namespace neuron::transport
