// SPDX-License-Identifier: Apache-2.0
//
// CRC-32 as zlib's: the checksum of the chunks of profiles. zlib's own takes four times as long for
// the hundred bytes that most of them have. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_CRC32_H
#define DRIVER_BASE_CRC32_H

#include <cstdint>
#include <span>

namespace neuron::base {

uint32_t crc32(std::span<const uint8_t> bytes);

}  // namespace neuron::base

#endif
