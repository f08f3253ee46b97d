// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/firmware_ram.h"

#include <gtest/gtest.h>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

class Firmware : public testing::Test, public FirmwareResets {
 protected:
  static constexpr uint64_t kRequest = NEURON_V2_HOST_BASE + 0x10000;
  static constexpr uint64_t kResponse = NEURON_V2_HOST_BASE + 0x20000;

  Firmware() : Firmware(0) {}
  explicit Firmware(uint32_t version)
      : ram(m.bus, *this, {.routing_id = 5, .serial = 0x1234567890ABCDEF, .version = version}) {
    m.bus.attach(NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_MISC_RAM, FirmwareRam::kBytes, &ram,
                 "firmware RAM");
    request = m.host.add(0x10000, 0x10000);
    response = m.host.add(0x20000, 0x10000);
  }
  void reset_device() override { ++device_resets; }
  void reset_cores(uint32_t value) override { maps.push_back(value); }
  static uint64_t at(uint32_t reg) { return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_MISC_RAM + reg; }

  // Returns the error byte, or -1 without a response.
  int mailbox(uint8_t command, std::vector<uint64_t> payload, uint16_t size, bool break_crc = false,
              uint8_t sequence = 9) {
    std::memset(request, 0, 8);
    request[0] = std::byte{sequence};
    request[1] = std::byte{command};
    std::memcpy(request + 2, &size, 2);
    if (!payload.empty()) std::memcpy(request + 8, payload.data(), 8 * payload.size());
    uint32_t crc = mailbox_crc({request, size});
    if (break_crc) ++crc;
    std::memcpy(request + 4, &crc, 4);
    response[0] = std::byte{0};
    m.write(at(NEURON_FW_REQUEST_LO), static_cast<uint32_t>(kRequest));
    m.write(at(NEURON_FW_REQUEST_HI), static_cast<uint32_t>(kRequest >> 32));
    m.write(at(NEURON_FW_RESPONSE_LO), static_cast<uint32_t>(kResponse));
    m.write(at(NEURON_FW_RESPONSE_HI), static_cast<uint32_t>(kResponse >> 32));
    m.write(at(NEURON_FW_TRIGGER), 1);
    return response[0] == std::byte{sequence} ? static_cast<int>(response[1]) : -1;
  }

  Machine m;
  FirmwareRam ram;
  std::byte* request;
  std::byte* response;
  int device_resets = 0;
  std::vector<uint32_t> maps;
};

TEST_F(Firmware, AnswersTheFirstReadsOfAProbe) {
  EXPECT_EQ(m.read(at(NEURON_FW_ROUTING_ID)), 5u);
  EXPECT_EQ(m.read(at(NEURON_FW_SERIAL_LO)), 0x90ABCDEFu);
  EXPECT_EQ(m.read(at(NEURON_FW_SERIAL_HI)), 0x12345678u);
  EXPECT_EQ(m.read(at(NEURON_FW_API_VERSION)), 0u);
}

TEST_F(Firmware, AcceptsADeviceResetByClearingTheRequest) {
  m.write(at(NEURON_FW_RESET), 1);
  EXPECT_EQ(m.read(at(NEURON_FW_RESET)), 1u);
  m.write(at(NEURON_FW_TRIGGER), 1);
  EXPECT_EQ(m.read(at(NEURON_FW_RESET)), 0u);
  EXPECT_EQ(m.read(at(NEURON_FW_STATUS)) & 8, 0u);
  EXPECT_EQ(device_resets, 1);
}

TEST_F(Firmware, ResetsTheCoresOfTheMap) {
  m.write(at(NEURON_FW_RESET_MAP), 0x701);
  m.write(at(NEURON_FW_RESET), 2);
  m.write(at(NEURON_FW_TRIGGER), 1);
  EXPECT_EQ(maps, std::vector<uint32_t>{0x701});
  EXPECT_EQ(m.read(at(NEURON_FW_RESET)), 0u);
}

TEST_F(Firmware, TakesRequestsAndTriggersFromTheHostOnly) {
  m.write(at(NEURON_FW_RESET), 1);
  for (const Origin origin : {Origin::kDma, Origin::kEngine}) {
    Access access;
    access.origin = origin;
    EXPECT_FALSE(m.bus.write32(at(NEURON_FW_TRIGGER), 1, access));
    EXPECT_FALSE(m.bus.write32(at(NEURON_FW_RESET), 2, access));
    EXPECT_FALSE(m.bus.write32(at(NEURON_FW_RESET_MAP), 1, access));
  }
  EXPECT_EQ(device_resets, 0);
  m.write(at(NEURON_FW_TRIGGER), 1);
  EXPECT_EQ(device_resets, 1);
}

TEST_F(Firmware, ComputesTheChecksumOfTheCastagnoliPolynomial) {
  EXPECT_EQ(mailbox_crc(std::as_bytes(std::span("123456789", 9))), 0xE3069283u);
}

TEST_F(Firmware, ReadsRegistersThroughTheMailbox) {
  m.semaphores.change(NEURON_UPDATE_WRITE, 4, 1234);
  ASSERT_EQ(mailbox(1, {Machine::kSemaphores + NEURON_SEM_BLOCK_READ + 16, 0xBAD00000000ull}, 24),
            0);
  uint16_t size;
  std::memcpy(&size, response + 2, 2);
  EXPECT_EQ(size, 12);
  uint32_t values[2];
  std::memcpy(values, response + 4, 8);
  EXPECT_EQ(values[0], 1234u);
  EXPECT_EQ(values[1], 0xFFFFFFFFu);
}

TEST_F(Firmware, TakesMetricsAndNamesUnknownCommands) {
  EXPECT_EQ(mailbox(2, {1, 2, 3}, 32), 0);
  EXPECT_EQ(mailbox(77, {}, 8), 2);
}

TEST_F(Firmware, FailsRequestsThatAreBroken) {
  EXPECT_EQ(mailbox(1, {0}, 16, true), 1);
  EXPECT_EQ(mailbox(1, {0}, 12), 1);
  EXPECT_EQ(mailbox(1, {}, 4), 1);
  EXPECT_EQ(mailbox(1, std::vector<uint64_t>(101, 0), 8 + 8 * 101), 1);
}

TEST_F(Firmware, LeavesARequestWithSequenceZeroAlone) {
  response[1] = std::byte{0x55};
  mailbox(1, {0}, 16, false, 0);
  EXPECT_EQ(response[1], std::byte{0x55});
}

TEST_F(Firmware, DoesNothingWithoutBuffers) {
  m.write(at(NEURON_FW_TRIGGER), 1);
  m.write(at(NEURON_FW_REQUEST_HI), 0x1FFF);
  m.write(at(NEURON_FW_TRIGGER), 1);
  EXPECT_EQ(device_resets, 0);
}

// Firmware of version 7, to which requests come in registers as well.
class FirmwareOfRegisters : public Firmware {
 protected:
  FirmwareOfRegisters() : Firmware(7) {}
  // Returns the answer's first word.
  uint32_t ask(uint8_t command, const std::vector<uint32_t>& payload, uint16_t size,
               uint8_t sequence = 9, bool break_crc = false) {
    std::vector<uint32_t> words{uint32_t{sequence} | uint32_t{command} << 8 | uint32_t{size} << 16,
                                0};
    words.insert(words.end(), payload.begin(), payload.end());
    words[1] =
        mailbox_crc(
            std::as_bytes(std::span(words)).first(std::min<size_t>(size, 4 * words.size()))) +
        (break_crc ? 1 : 0);
    for (size_t i = 0; i < payload.size(); ++i) {
      m.write(at(static_cast<uint32_t>(NEURON_FW_DATA + 4 * i)), payload[i]);
    }
    m.write(at(NEURON_FW_REQUEST_HI), words[0]);
    m.write(at(NEURON_FW_REQUEST_LO), words[1]);
    m.write(at(NEURON_FW_RESPONSE_HI), 0);
    m.write(at(NEURON_FW_RESPONSE_LO), 0);
    m.write(at(NEURON_FW_ACKNOWLEDGE), 1);
    m.write(at(NEURON_FW_TRIGGER), 1);
    return m.read(at(NEURON_FW_REQUEST_HI));
  }
  static constexpr uint32_t answer(uint8_t error, uint32_t size = 4, uint8_t sequence = 9) {
    return sequence | uint32_t{error} << 8 | size << 16;
  }
};

TEST_F(FirmwareOfRegisters, SaysSoInItsVersion) {
  EXPECT_EQ(m.read(at(NEURON_FW_API_VERSION)), 7u);
}

TEST_F(FirmwareOfRegisters, TakesAPowerProfileAndTellsTheEndInTheTrigger) {
  EXPECT_EQ(ask(3, {0, 2}, 16), answer(0));
  EXPECT_EQ(m.read(at(NEURON_FW_TRIGGER)), 0u);
  EXPECT_EQ(m.read(at(NEURON_FW_ACKNOWLEDGE)), 0u);
}

TEST_F(FirmwareOfRegisters, ReadsRegistersIntoThem) {
  m.semaphores.change(NEURON_UPDATE_WRITE, 4, 1234);
  const uint64_t one = Machine::kSemaphores + NEURON_SEM_BLOCK_READ + 16, none = 0xBAD00000000ull;
  EXPECT_EQ(ask(1,
                {static_cast<uint32_t>(one), static_cast<uint32_t>(one >> 32),
                 static_cast<uint32_t>(none), static_cast<uint32_t>(none >> 32)},
                24),
            answer(0, 12));
  EXPECT_EQ(m.read(at(NEURON_FW_DATA)), 1234u);
  EXPECT_EQ(m.read(at(NEURON_FW_DATA + 4)), 0xFFFFFFFFu);
}

TEST_F(FirmwareOfRegisters, RefusesWhatIsBrokenOrDoesNotFitThem) {
  EXPECT_EQ(ask(3, {0, 2}, 16, 9, true), answer(1));
  EXPECT_EQ(ask(3, {0, 2}, 4), answer(1));
  EXPECT_EQ(ask(3, {0, 2}, 137), answer(1));
  EXPECT_EQ(ask(3, {0, 2}, 65535), answer(1));
  EXPECT_EQ(ask(77, {}, 8, 200), answer(2, 4, 200));
  // Sequence 0 is no request: the registers keep it.
  EXPECT_EQ(ask(3, {0, 2}, 16, 0), 3u << 8 | 16u << 16);
}

TEST_F(FirmwareOfRegisters, StillReadsTheMailboxAfterThem) {
  EXPECT_EQ(ask(3, {0, 2}, 16), answer(0));
  EXPECT_EQ(mailbox(2, {1, 2, 3}, 32), 0);
  EXPECT_EQ(ask(3, {0, 2}, 16, 11), answer(0, 4, 11));
}

TEST_F(Firmware, KeepsTheRestAsPlainMemory) {
  m.write(at(0x0C4), 99);
  EXPECT_EQ(m.read(at(0x0C4)), 99u);
}

}  // namespace
}  // namespace neuron::chip
