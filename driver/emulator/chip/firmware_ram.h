// SPDX-License-Identifier: Apache-2.0
// MISC RAM: the interface between driver and firmware (reset requests, mailbox, identity).
//
// Concepts: plain RAM with a few live words. A write of 1 to TRIGGER serves a pending reset request
// (RESET != 0) or, if there is none, a request: in the mailbox, whose addresses the registers name,
// or in the registers themselves, which firmware understands from version 7 on and which name no
// address for the answer. All are finished when the write returns. Triggers by DMA or engines are
// ignored, so that a descriptor cannot reset the engine that executes it. Callers: any thread.
// Thread-safe: yes; one trigger at a time. Fails: a malformed request gets an error response; one
// without a usable response buffer gets none.
#ifndef DRIVER_EMULATOR_CHIP_FIRMWARE_RAM_H
#define DRIVER_EMULATOR_CHIP_FIRMWARE_RAM_H

#include <cstdint>
#include <mutex>
#include <span>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/register_target.h"

namespace neuron::chip {

class FirmwareResets {
 public:
  virtual ~FirmwareResets() = default;
  virtual void reset_device() = 0;
  // `map` as the driver wrote it: bit n is core n, bits 8 + 3n.. are its TOPSPs.
  virtual void reset_cores(uint32_t map) = 0;
};

struct FirmwareIdentity {
  uint32_t routing_id = 0;
  uint64_t serial = 0;
  uint32_t version = 0;
};

class FirmwareRam final : public RegisterTarget {
 public:
  static constexpr uint64_t kBytes = 0x1000;

  // `faults` holds the counters of memory errors.
  FirmwareRam(const Bus& bus, FirmwareResets& resets, const FirmwareIdentity& identity,
              const ChipFaults& faults = ChipFaults::none());

 protected:
  bool accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) override;
  uint32_t read_word(uint64_t offset, const Access& access) override;
  void write_word(uint64_t offset, uint32_t value, const Access& access) override;

 private:
  void serve_trigger();
  void serve_mailbox();
  void serve_registers();
  // Fills the payload of the response and sets `bytes` to its size, at most that of `payload`;
  // returns the error byte.
  uint8_t serve_request(std::span<const std::byte> request, std::span<std::byte> payload,
                        size_t& bytes);

  const Bus& bus_;
  FirmwareResets& resets_;
  const FirmwareIdentity identity_;
  const ChipFaults& faults_;
  std::mutex trigger_;
  StoredRegisters words_;
};

// CRC-32C as mailbox requests carry it.
uint32_t mailbox_crc(std::span<const std::byte> bytes);

}  // namespace neuron::chip

#endif
