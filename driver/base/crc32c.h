// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli, reflected, initial and final value all ones): the checksum of engine
// binaries. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_CRC32C_H
#define DRIVER_BASE_CRC32C_H

#include <cstdint>
#include <span>

namespace neuron::base {

uint32_t crc32c(std::span<const uint8_t> bytes);

}  // namespace neuron::base

#endif
