// SPDX-License-Identifier: Apache-2.0
#include "driver/base/hmac_sha256.h"

#include <algorithm>

namespace neuron::base {
namespace {

std::span<const uint8_t> octets(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

Sha256::Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data) {
  std::array<uint8_t, 64> block{};
  if (key.size() > block.size()) {
    const Sha256::Digest digest = Sha256::of(octets(key));
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::ranges::copy(octets(key), block.begin());
  }
  std::array<uint8_t, 64> inner_pad, outer_pad;
  for (size_t i = 0; i < block.size(); ++i) {
    inner_pad[i] = block[i] ^ 0x36;
    outer_pad[i] = block[i] ^ 0x5c;
  }
  Sha256 inner;
  inner.update(inner_pad);
  inner.update(octets(data));
  Sha256 outer;
  outer.update(outer_pad);
  outer.update(inner.finish());
  return outer.finish();
}

bool equal_digests(const Sha256::Digest& a, const Sha256::Digest& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= a[i] ^ b[i];
  }
  return difference == 0;
}

}  // namespace neuron::base
