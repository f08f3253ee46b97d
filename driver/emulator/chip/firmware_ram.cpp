// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/firmware_ram.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "hw/address_map.h"

namespace neuron::chip {
namespace {

constexpr uint32_t kResetDevice = 1;
constexpr uint32_t kResetCores = 2;
constexpr size_t kRequestHeader = 8;   // sequence, command, size, CRC
constexpr size_t kResponseHeader = 4;  // sequence, error, size
constexpr size_t kMaxReads = 100;
constexpr uint32_t kFirstWithRegisters = 7;  // version whose requests may stand in registers
enum Command : uint8_t { kReadRegisters = 1, kPostMetrics = 2, kPowerProfile = 3 };
enum Result : uint8_t { kOk = 0, kFailed = 1, kUnknownCommand = 2 };

}  // namespace

uint32_t mailbox_crc(std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1u)));
  }
  return ~crc;
}

FirmwareRam::FirmwareRam(const Bus& bus, FirmwareResets& resets, const FirmwareIdentity& identity,
                         const ChipFaults& faults)
    : bus_(bus), resets_(resets), identity_(identity), faults_(faults), words_(kBytes) {}

bool FirmwareRam::accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) {
  // Requests are the host's: what a program left here would be served with the host's next one.
  if (write && access.origin != Origin::kHost) return false;
  return offset < kBytes && bytes <= kBytes - offset;
}

uint32_t FirmwareRam::read_word(uint64_t offset, const Access&) {
  switch (offset) {
    case NEURON_FW_API_VERSION:
      return identity_.version;
    case NEURON_FW_ROUTING_ID:
      return identity_.routing_id;
    case NEURON_FW_SERIAL_LO:
      return static_cast<uint32_t>(identity_.serial);
    case NEURON_FW_SERIAL_HI:
      return static_cast<uint32_t>(identity_.serial >> 32);
    case NEURON_FW_STATUS:  // bit 3 would say that a reset is in progress; none outlives its
                            // trigger
      return 0;
    default:
      if (ChipFaults::has_word(offset)) return faults_.ecc_word(offset);
      return words_.load(offset);
  }
}

void FirmwareRam::write_word(uint64_t offset, uint32_t value, const Access& access) {
  words_.store(offset, value);
  if (offset == NEURON_FW_TRIGGER && (value & 1) != 0 && access.origin == Origin::kHost) {
    serve_trigger();
  }
}

void FirmwareRam::serve_trigger() {
  const std::lock_guard guard(trigger_);
  const uint32_t request = words_.load(NEURON_FW_RESET);
  if (request == 0) {
    const bool names_answer =
        (words_.load(NEURON_FW_RESPONSE_HI) | words_.load(NEURON_FW_RESPONSE_LO)) != 0;
    return names_answer || identity_.version < kFirstWithRegisters ? serve_mailbox()
                                                                   : serve_registers();
  }
  if (request == kResetDevice) {
    resets_.reset_device();
  } else if (request == kResetCores) {
    resets_.reset_cores(words_.load(NEURON_FW_RESET_MAP));
  }
  words_.store(NEURON_FW_RESET, 0);
}

uint8_t FirmwareRam::serve_request(std::span<const std::byte> request, std::span<std::byte> payload,
                                   size_t& bytes) {
  bytes = 0;
  std::vector<std::byte> copy(request.begin(), request.end());
  uint32_t crc;
  std::memcpy(&crc, copy.data() + 4, 4);
  std::fill_n(copy.begin() + 4, 4, std::byte{0});
  if (mailbox_crc(copy) != crc) return kFailed;
  const auto command = static_cast<uint8_t>(copy[1]);
  // A profile changes how fast silicon runs; model time is that of the default one.
  if (command == kPostMetrics || command == kPowerProfile) return kOk;
  if (command != kReadRegisters) return kUnknownCommand;
  const size_t count = (copy.size() - kRequestHeader) / 8;
  if ((copy.size() - kRequestHeader) % 8 != 0 || count > kMaxReads || 4 * count > payload.size()) {
    return kFailed;
  }
  for (size_t i = 0; i < count; ++i) {
    uint64_t address;
    std::memcpy(&address, copy.data() + kRequestHeader + 8 * i, 8);
    uint32_t value = 0xFFFFFFFFu;
    (void)bus_.read32(address, value, Access{});
    std::memcpy(payload.data() + 4 * i, &value, 4);
  }
  bytes = 4 * count;
  return kOk;
}

void FirmwareRam::serve_registers() {
  std::array<std::byte, kRequestHeader + NEURON_FW_DATA_SIZE> request;
  const auto word = [&](size_t at, uint64_t offset) {
    const uint32_t value = words_.load(offset);
    std::memcpy(request.data() + at, &value, sizeof(value));
  };
  word(0, NEURON_FW_REQUEST_HI);
  word(4, NEURON_FW_REQUEST_LO);
  for (size_t at = 0; at < NEURON_FW_DATA_SIZE; at += 4) {
    word(kRequestHeader + at, NEURON_FW_DATA + at);
  }
  uint16_t size;
  std::memcpy(&size, request.data() + 2, 2);
  if (request[0] == std::byte{0}) return;

  std::array<std::byte, NEURON_FW_DATA_SIZE> payload = {};
  size_t bytes = 0;
  uint8_t error = kFailed;
  if (size >= kRequestHeader && size <= request.size()) {
    error = serve_request(std::span(request).first(size), payload, bytes);
  }
  for (size_t at = 0; at < bytes; at += 4) {
    uint32_t value;
    std::memcpy(&value, payload.data() + at, sizeof(value));
    words_.store(NEURON_FW_DATA + at, value);
  }
  const auto total = static_cast<uint32_t>(kResponseHeader + bytes);
  words_.store(NEURON_FW_REQUEST_HI,
               static_cast<uint32_t>(request[0]) | uint32_t{error} << 8 | total << 16);
  words_.store(NEURON_FW_ACKNOWLEDGE, 0);
  words_.store(NEURON_FW_TRIGGER, 0);
}

void FirmwareRam::serve_mailbox() {
  const auto pair = [this](uint64_t hi, uint64_t lo) {
    return uint64_t{words_.load(hi)} << 32 | words_.load(lo);
  };
  const uint64_t request_at = pair(NEURON_FW_REQUEST_HI, NEURON_FW_REQUEST_LO);
  const uint64_t response_at = pair(NEURON_FW_RESPONSE_HI, NEURON_FW_RESPONSE_LO);
  const Transfer transfer(bus_.host_memory(Reach::kDriver));
  std::array<std::byte, kRequestHeader> header;
  const std::byte* from = bus_.direct(request_at, kRequestHeader, Reach::kDriver);
  if (from == nullptr) return;
  std::memcpy(header.data(), from, header.size());
  uint16_t size;
  std::memcpy(&size, header.data() + 2, 2);
  const std::byte sequence = header[0];
  if (sequence == std::byte{0}) return;

  std::array<std::byte, kResponseHeader + 4 * kMaxReads> response = {};
  size_t payload = 0;
  uint8_t error = kFailed;
  from = bus_.direct(request_at, size, Reach::kDriver);
  if (size >= kRequestHeader && from != nullptr) {
    // One copy: the request may change while it is being served. What was read as its header stays.
    std::vector<std::byte> request(from, from + size);
    std::copy(header.begin(), header.end(), request.begin());
    error = serve_request(request, std::span(response).subspan(kResponseHeader), payload);
  }
  const auto total = static_cast<uint16_t>(kResponseHeader + payload);
  std::byte* to = bus_.direct(response_at, total, Reach::kDriver);
  if (to == nullptr) return;
  response[1] = std::byte{error};
  std::memcpy(response.data() + 2, &total, 2);
  std::memcpy(to + 1, response.data() + 1, total - 1);
  // The sequence number last: the driver polls it. Release: pairs with its acquire load.
  std::atomic_ref<uint8_t>(*reinterpret_cast<uint8_t*>(to))
      .store(static_cast<uint8_t>(sequence), std::memory_order_release);
  bus_.wrote({.address = response_at, .bytes = total, .kind = HostWriteKind::kFirmware});
}

}  // namespace neuron::chip
