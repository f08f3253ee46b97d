// SPDX-License-Identifier: Apache-2.0
// The SDMA wrapper around a UDMA engine: stored configuration, and a block of notification queues.
// Slot 0 takes the engine's DMA notifications.
//
// Callers: any thread. Thread-safe: yes.
#ifndef DRIVER_EMULATOR_CHIP_SDMA_WRAPPER_H
#define DRIVER_EMULATOR_CHIP_SDMA_WRAPPER_H

#include "driver/emulator/chip/notification_queue.h"
#include "driver/emulator/chip/register_target.h"
#include "hw/address_map.h"

namespace neuron::chip {

class SdmaWrapper final : public BusTarget {
 public:
  static constexpr uint64_t kBytes = 0x7000;

  explicit SdmaWrapper(const Bus& bus) : notifications_(bus), stored_(kBytes) {}

  NotificationBlock& notifications() { return notifications_; }
  void reset() {
    notifications_.reset();
    stored_.clear();
  }
  bool read(uint64_t offset, std::span<std::byte> out, const Access& access) override {
    return in_block(offset) ? notifications_.read(offset - kBlock, out, access)
                            : stored_.read(offset, out, access);
  }
  bool write(uint64_t offset, std::span<const std::byte> in, const Access& access) override {
    return in_block(offset) ? notifications_.write(offset - kBlock, in, access)
                            : stored_.write(offset, in, access);
  }

 private:
  static constexpr uint64_t kBlock = NEURON_V2_SDMA_NOTIFICATION;
  static bool in_block(uint64_t offset) {
    return offset >= kBlock && offset < kBlock + NotificationBlock::kBytes;
  }
  NotificationBlock notifications_;
  StoredRegisters stored_;
};

}  // namespace neuron::chip

#endif
