// SPDX-License-Identifier: Apache-2.0
#include "driver/base/md5.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace neuron::base {
namespace {

struct Constants {
  uint32_t sine[64];
  Constants() {
    // By definition the integer part of 2^32 * |sin(i + 1)|, exact in double precision.
    for (int i = 0; i < 64; ++i) {
      sine[i] = static_cast<uint32_t>(std::floor(std::fabs(std::sin(i + 1.0)) * 4294967296.0));
    }
  }
};

void block(std::array<uint32_t, 4>& state, const uint8_t* bytes) {
  static const Constants constants;
  static constexpr uint8_t kShift[4][4] = {
      {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t words[16];
  for (int i = 0; i < 16; ++i) {
    words[i] = uint32_t{bytes[4 * i]} | uint32_t{bytes[4 * i + 1]} << 8 |
               uint32_t{bytes[4 * i + 2]} << 16 | uint32_t{bytes[4 * i + 3]} << 24;
  }
  auto [a, b, c, d] = state;
  for (int i = 0; i < 64; ++i) {
    uint32_t mix = 0;
    int word = i;
    switch (i / 16) {
      case 0:
        mix = (b & c) | (~b & d);
        break;
      case 1:
        mix = (d & b) | (~d & c);
        word = (5 * i + 1) % 16;
        break;
      case 2:
        mix = b ^ c ^ d;
        word = (3 * i + 5) % 16;
        break;
      default:
        mix = c ^ (b | ~d);
        word = (7 * i) % 16;
    }
    mix += a + constants.sine[i] + words[word];
    a = d, d = c, c = b;
    b += std::rotl(mix, kShift[i / 16][i % 4]);
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

}  // namespace

std::array<uint8_t, 16> md5(std::span<const uint8_t> bytes) {
  std::array<uint32_t, 4> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  const uint64_t bits = bytes.size() * 8;
  while (bytes.size() >= 64) {
    block(state, bytes.data());
    bytes = bytes.subspan(64);
  }
  uint8_t tail[128] = {};
  if (!bytes.empty()) std::memcpy(tail, bytes.data(), bytes.size());
  tail[bytes.size()] = 0x80;
  const size_t size = bytes.size() < 56 ? 64 : 128;
  for (int i = 0; i < 8; ++i) tail[size - 8 + i] = static_cast<uint8_t>(bits >> (8 * i));
  for (size_t at = 0; at < size; at += 64) block(state, tail + at);
  std::array<uint8_t, 16> digest;
  for (int i = 0; i < 16; ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (8 * (i % 4)));
  return digest;
}

}  // namespace neuron::base
