// SPDX-License-Identifier: Apache-2.0
// The chip's firmware as a driver sees it: reset requests and a mailbox in the MISC RAM registers.
//
// Concepts: a reset is a map of cores, a request word, a doorbell, and polling until the request
// word reads 0 and the status word no longer says "in progress". The mailbox takes one request at a
// time from a host buffer, with sequence number and CRC-32C, and answers in another. Callers:
// Device, one thread at a time. Owns its two buffers. Fails: -ETIMEDOUT with a sentence.
#ifndef DRIVER_EMULATOR_SERVICE_FIRMWARE_H
#define DRIVER_EMULATOR_SERVICE_FIRMWARE_H

#include <chrono>
#include <cstddef>
#include <span>

#include "driver/emulator/service/device_memory.h"

namespace neuron::service {

class Firmware {
 public:
  static constexpr uint32_t kWholeDevice = 0xFFFFFFFFu;

  Firmware(unsigned device, chip::Chip& chip,
           std::chrono::milliseconds limit = std::chrono::seconds(10));

  int create(DeviceMemory& memory);
  // Waits for the id that tells which device this is.
  int routing_id(uint32_t* id);
  // Bit n of the map = core n, with its CC cores.
  int reset(uint32_t core_map);
  // At most 128 bytes.
  int post_metric(std::span<const std::byte> record);
  // Only chips with power profiles (nd_chip) take it.
  int set_power_profile(uint8_t profile);

 private:
  int request(uint8_t command, std::span<const std::byte> payload, std::span<std::byte> answer);
  uint32_t read(uint32_t offset);
  void write(uint32_t offset, uint32_t value);

  const unsigned device_;
  chip::Chip& chip_;
  const nd_chip& layout_;
  const std::chrono::milliseconds limit_;
  Chunk* request_ = nullptr;
  Chunk* response_ = nullptr;
  uint8_t sequence_ = 0;
};

}  // namespace neuron::service

#endif
