// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/firmware.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver/base/backoff.h"
#include "driver/base/crc32c.h"
#include "driver/emulator/service/error.h"
#include "hw/address_map.h"

namespace neuron::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kNotReady = 0xDEADBEEF;
constexpr uint32_t kResetInProgress = 1u << 3;
constexpr uint32_t kMetricBuffer = 0x100;
constexpr size_t kMetricBytes = 128;
constexpr size_t kRequestHeader = 8;
constexpr size_t kResponseHeader = 4;
constexpr uint8_t kCommandPostMetric = 2;
constexpr uint8_t kCommandPowerProfile = 3;

void pause() { base::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

Firmware::Firmware(unsigned device, chip::Chip& chip, std::chrono::milliseconds limit)
    : device_(device),
      chip_(chip),
      layout_(*nd_chip_for_device(chip.config().pci_device)),
      limit_(limit) {}

uint32_t Firmware::read(uint32_t offset) { return chip_.read_register(layout_.misc_ram + offset); }

void Firmware::write(uint32_t offset, uint32_t value) {
  chip_.write_register(layout_.misc_ram + offset, value);
}

int Firmware::create(DeviceMemory& memory) {
  AllocateRequest wanted;
  wanted.host = true;
  wanted.size = ND_PAGE_SIZE;
  wanted.category = NEURON_MEMALLOC_TYPE_NCDEV_HOST;
  wanted.with_handle = false;
  wanted.own = true;
  if (int error = memory.allocate(wanted, &request_)) return error;
  return memory.allocate(wanted, &response_);
}

int Firmware::routing_id(uint32_t* id) {
  const auto deadline = Clock::now() + limit_;
  while ((*id = read(NEURON_FW_ROUTING_ID)) == kNotReady) {
    if (Clock::now() >= deadline) {
      return fail(-ETIMEDOUT, "device %u: the firmware gave no routing id in %lld ms", device_,
                  static_cast<long long>(limit_.count()));
    }
    pause();
  }
  return 0;
}

int Firmware::reset(uint32_t core_map) {
  const bool whole = core_map == kWholeDevice;
  if (!whole) write(NEURON_FW_RESET_MAP, nd_chip_reset_map(&layout_, core_map));
  write(NEURON_FW_RESET, whole ? 1 : 2);
  write(NEURON_FW_TRIGGER, 1);
  const auto deadline = Clock::now() + limit_;
  while (read(NEURON_FW_RESET) != 0 || (read(NEURON_FW_STATUS) & kResetInProgress)) {
    if (Clock::now() >= deadline) {
      return fail(
          -ETIMEDOUT,
          "device %u: reset of core map 0x%x not finished after %lld ms (request word 0x%x, "
          "status 0x%x)",
          device_, core_map, static_cast<long long>(limit_.count()), read(NEURON_FW_RESET),
          read(NEURON_FW_STATUS));
    }
    pause();
  }
  return 0;
}

int Firmware::request(uint8_t command, std::span<const std::byte> payload,
                      std::span<std::byte> answer) {
  if (++sequence_ == 0) sequence_ = 1;
  std::byte* message = request_->data;
  const uint16_t size = static_cast<uint16_t>(kRequestHeader + payload.size());
  std::memset(message, 0, kRequestHeader);
  message[0] = std::byte{sequence_};
  message[1] = std::byte{command};
  std::memcpy(message + 2, &size, sizeof(size));
  if (!payload.empty()) std::memcpy(message + kRequestHeader, payload.data(), payload.size());
  const uint32_t crc = base::crc32c({reinterpret_cast<const uint8_t*>(message), size});
  std::memcpy(message + 4, &crc, sizeof(crc));
  auto* done = reinterpret_cast<uint8_t*>(response_->data);
  __atomic_store_n(done, 0, __ATOMIC_RELEASE);  // pairs with the firmware's read of the request
  write(NEURON_FW_REQUEST_LO, static_cast<uint32_t>(request_->address));
  write(NEURON_FW_REQUEST_HI, static_cast<uint32_t>(request_->address >> 32));
  write(NEURON_FW_RESPONSE_LO, static_cast<uint32_t>(response_->address));
  write(NEURON_FW_RESPONSE_HI, static_cast<uint32_t>(response_->address >> 32));
  write(NEURON_FW_TRIGGER, 1);
  const auto deadline = Clock::now() + limit_;
  // Pairs with the firmware's write of byte 0, which it makes last.
  while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != sequence_) {
    if (Clock::now() >= deadline) {
      return fail(-ETIMEDOUT, "device %u: the firmware did not answer command %u in %lld ms",
                  device_, command, static_cast<long long>(limit_.count()));
    }
    pause();
  }
  const auto error = static_cast<unsigned>(response_->data[1]);
  uint16_t answered = 0;
  std::memcpy(&answered, response_->data + 2, sizeof(answered));
  if (error != 0 || (!answer.empty() && answered < kResponseHeader + answer.size())) {
    return fail(-EIO,
                "device %u: the firmware answered command %u with error %u and %u bytes, expected "
                "0 and %zu",
                device_, command, error, answered, kResponseHeader + answer.size());
  }
  if (!answer.empty()) std::memcpy(answer.data(), response_->data + kResponseHeader, answer.size());
  return 0;
}

int Firmware::set_power_profile(uint8_t profile) {
  const std::byte payload[1] = {std::byte{profile}};
  return request(kCommandPowerProfile, payload, {});
}

int Firmware::post_metric(std::span<const std::byte> record) {
  if (record.size() > kMetricBytes) {
    return fail(-E2BIG, "device %u: a metric record has at most %zu bytes, found %zu", device_,
                kMetricBytes, record.size());
  }
  for (size_t i = 0; i < record.size(); i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, record.data() + i, std::min<size_t>(4, record.size() - i));
    write(kMetricBuffer + static_cast<uint32_t>(i), word);
  }
  return request(kCommandPostMetric, record, {});
}

}  // namespace neuron::service
