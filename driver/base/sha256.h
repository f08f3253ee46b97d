// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) of bytes given in pieces. Callers: NEFF header check, NEFF writer.
// Thread-safe: a value. Cannot fail.
#ifndef DRIVER_BASE_SHA256_H
#define DRIVER_BASE_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace neuron::base {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  void update(std::span<const uint8_t> bytes);
  Digest finish();

  static Digest of(std::span<const uint8_t> bytes) {
    Sha256 hash;
    hash.update(bytes);
    return hash.finish();
  }

 private:
  void add(const uint8_t* bytes, size_t blocks);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace neuron::base

#endif
