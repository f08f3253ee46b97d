// SPDX-License-Identifier: Apache-2.0
//
// A reflected CRC of 32 bits (initial and final value all ones), eight bytes in one step.
// `polynomial`: with its bits reversed. Callers: crc32, crc32c. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_SLICED_CRC_H
#define DRIVER_BASE_SLICED_CRC_H

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace neuron::base {

template <uint32_t polynomial>
class SlicedCrc {
 public:
  static uint32_t of(std::span<const uint8_t> bytes) { return ~advance(0xFFFFFFFF, bytes); }
  // The remainder behind these bytes, of what had the remainder `crc`.
  static uint32_t advance(uint32_t crc, std::span<const uint8_t> bytes) {
    while (bytes.size() >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      word ^= crc;
      crc = 0;
      for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
      bytes = bytes.subspan(8);
    }
    for (uint8_t byte : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ byte) & 0xFF];
    return crc;
  }

 private:
  using Tables = std::array<std::array<uint32_t, 256>, 8>;

  // Table k advances a byte that is followed by k others.
  static constexpr Tables make_tables() {
    Tables tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
      tables[0][byte] = value;
    }
    for (size_t k = 1; k < 8; ++k) {
      for (size_t byte = 0; byte < 256; ++byte) {
        tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFF];
      }
    }
    return tables;
  }
  static constexpr Tables kTables = make_tables();
};

}  // namespace neuron::base

#endif
