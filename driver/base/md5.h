// SPDX-License-Identifier: Apache-2.0
//
// MD5 (RFC 1321), only to check NEFF files of packaging version 2, which carry one. Not for
// security. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_MD5_H
#define DRIVER_BASE_MD5_H

#include <array>
#include <cstdint>
#include <span>

namespace neuron::base {

std::array<uint8_t, 16> md5(std::span<const uint8_t> bytes);

}  // namespace neuron::base

#endif
