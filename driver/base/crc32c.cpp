// SPDX-License-Identifier: Apache-2.0
#include "driver/base/crc32c.h"

#include <array>
#include <cstring>

namespace neuron::base {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed.

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Table k advances a byte that is followed by k others, so that eight bytes go in one step.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFF];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32c(std::span<const uint8_t> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
    bytes = bytes.subspan(8);
  }
  for (uint8_t byte : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ byte) & 0xFF];
  return ~crc;
}

}  // namespace neuron::base
