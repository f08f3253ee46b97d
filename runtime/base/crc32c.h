// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli, reflected, initial and final value all ones): the checksum of engine
// binaries. Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_BASE_CRC32C_H_
#define RUNTIME_BASE_CRC32C_H_

#include <cstdint>
#include <span>

namespace neuron::runtime {

std::uint32_t crc32c(std::span<const std::uint8_t> bytes);

}  // namespace neuron::runtime

#endif  // RUNTIME_BASE_CRC32C_H_
