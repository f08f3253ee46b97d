// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/sha256.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

namespace neuron::ccom {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;
constexpr State kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

void add_block(State& state, const std::byte* block) {
  std::array<uint32_t, 64> words;
  for (size_t i = 0; i < 16; ++i) {
    words[i] =
        static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
        static_cast<uint32_t>(block[4 * i + 2]) << 8 | static_cast<uint32_t>(block[4 * i + 3]);
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15];
    const uint32_t b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  State s = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t one = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                         ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRound[i] + words[i];
    const uint32_t two = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                         ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {one + two, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < 8; ++i) {
    state[i] += s[i];
  }
}

}  // namespace

Digest sha256(std::span<const std::byte> data) {
  State state = kStart;
  size_t at = 0;
  for (; at + 64 <= data.size(); at += 64) {
    add_block(state, data.data() + at);
  }
  // The rest, a one bit, zeros, and the length in bits.
  std::array<std::byte, 128> tail{};
  const size_t rest = data.size() - at;
  std::copy(data.begin() + static_cast<ptrdiff_t>(at), data.end(), tail.begin());
  tail[rest] = std::byte{0x80};
  const size_t length = rest < 56 ? 64 : 128;
  const uint64_t bits = uint64_t{data.size()} * 8;
  for (size_t i = 0; i < 8; ++i) {
    tail[length - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  }
  for (size_t i = 0; i < length; i += 64) {
    add_block(state, tail.data() + i);
  }
  Digest digest;
  for (size_t i = 0; i < 32; ++i) {
    digest[i] = static_cast<std::byte>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data) {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    const Digest digest = sha256(key);
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  std::vector<std::byte> inner(block.size() + data.size());
  std::vector<std::byte> outer(block.size() + sizeof(Digest));
  for (size_t i = 0; i < block.size(); ++i) {
    inner[i] = block[i] ^ std::byte{0x36};
    outer[i] = block[i] ^ std::byte{0x5c};
  }
  std::copy(data.begin(), data.end(), inner.begin() + block.size());
  const Digest digest = sha256(inner);
  std::copy(digest.begin(), digest.end(), outer.begin() + block.size());
  return sha256(outer);
}

bool equal_digests(const Digest& a, const Digest& b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= a[i] ^ b[i];
  }
  return difference == std::byte{0};
}

bool random_bytes(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = getrandom(into.data() + done, into.size() - done, 0);
    if (got < 0 && errno != EINTR) {
      return false;
    }
    done += got > 0 ? static_cast<size_t>(got) : 0;
  }
  return true;
}

}  // namespace neuron::ccom
