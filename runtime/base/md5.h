// SPDX-License-Identifier: Apache-2.0
//
// MD5 (RFC 1321), only to check NEFF files of packaging version 2, which carry one. Not for
// security. Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_BASE_MD5_H_
#define RUNTIME_BASE_MD5_H_

#include <array>
#include <cstdint>
#include <span>

namespace neuron::runtime {

std::array<std::uint8_t, 16> md5(std::span<const std::uint8_t> bytes);

}  // namespace neuron::runtime

#endif  // RUNTIME_BASE_MD5_H_
