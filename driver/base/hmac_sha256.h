// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA-256 (RFC 2104): the proof that a process knows a secret.
//
// Callers: handshakes. Thread-safe: functions of their arguments. Cannot fail.
#ifndef DRIVER_BASE_HMAC_SHA256_H
#define DRIVER_BASE_HMAC_SHA256_H

#include <cstddef>
#include <span>

#include "driver/base/sha256.h"

namespace neuron::base {

Sha256::Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data);

// Takes as long for different digests as for equal ones.
bool equal_digests(const Sha256::Digest& a, const Sha256::Digest& b);

}  // namespace neuron::base

#endif
