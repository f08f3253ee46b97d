// SPDX-License-Identifier: Apache-2.0
// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104): the proof that a process knows the job's secret.
//
// Callers: handshake. Thread-safe: functions of their arguments. Cannot fail, except random_bytes,
// which ends with false when the system has no randomness.
#ifndef CCOM_BOOTSTRAP_SHA256_H
#define CCOM_BOOTSTRAP_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace neuron::ccom {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> data);
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data);
// Takes as long for different digests as for equal ones.
bool equal_digests(const Digest& a, const Digest& b);
bool random_bytes(std::span<std::byte> into);

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace neuron::ccom

#endif
