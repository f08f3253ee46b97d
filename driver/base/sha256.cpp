// SPDX-License-Identifier: Apache-2.0
#include "driver/base/sha256.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace neuron::base {
namespace {

// Fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

using State = std::array<uint32_t, 8>;

void add_block(State& state, const uint8_t* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = load_big(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += add[i];
}

// With the instructions that do two rounds, and that make the next words. They want the state in
// the order a b e f, c d g h, the first on top.
[[gnu::target("sha,sse4.1")]] void add_blocks_by_instructions(State& state, const uint8_t* bytes,
                                                              size_t count) {
  const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto pack = [&](int n) __attribute__((target("sha,sse4.1"))) {
    return _mm_set_epi32(static_cast<int>(state[n]), static_cast<int>(state[n + 1]),
                         static_cast<int>(state[n + 4]), static_cast<int>(state[n + 5]));
  };
  __m128i abef = pack(0), cdgh = pack(2);
  for (; count != 0; --count, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (int n = 0; n < 4; ++n) {
      words[n] =
          _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + n), turn);
    }
    for (int n = 0; n < 16; ++n) {
      __m128i& now = words[n % 4];
      const __m128i last = words[(n + 3) % 4];
      const __m128i sum =
          _mm_add_epi32(now, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kRound) + n));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (n >= 12) continue;
      now = _mm_add_epi32(_mm_sha256msg1_epu32(now, words[(n + 1) % 4]),
                          _mm_alignr_epi8(last, words[(n + 2) % 4], 4));
      now = _mm_sha256msg2_epu32(now, last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) uint32_t high[4], low[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(high), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(low), cdgh);
  state = {high[3], high[2], low[3], low[2], high[1], high[0], low[1], low[0]};
}

// CPUID leaf 7, EBX bit 29: clang 14 cannot be asked for this extension.
bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (b & bit_SHA) != 0;
}

}  // namespace

void Sha256::add(const uint8_t* bytes, size_t blocks) {
  static const bool by_instructions = has_instructions();
  // A block alone is added as on other processors, so that tests compare both ways.
  if (by_instructions && blocks > 1) return add_blocks_by_instructions(state_, bytes, blocks);
  for (; blocks != 0; --blocks, bytes += 64) add_block(state_, bytes);
}

void Sha256::update(std::span<const uint8_t> bytes) {
  total_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_bytes_ == 0 && bytes.size() >= 64) {
      add(bytes.data(), bytes.size() / 64);
      bytes = bytes.last(bytes.size() % 64);
      continue;
    }
    const size_t take = std::min(bytes.size(), 64 - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), take);
    bytes = bytes.subspan(take);
    pending_bytes_ += take;
    if (pending_bytes_ == 64) {
      add(pending_.data(), 1);
      pending_bytes_ = 0;
    }
  }
}

Sha256::Digest Sha256::finish() {
  const uint64_t bits = total_bytes_ * 8;
  uint8_t tail[72] = {0x80};
  const size_t padding = (pending_bytes_ < 56 ? 56 : 120) - pending_bytes_;
  for (int i = 0; i < 8; ++i) tail[padding + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update({tail, padding + 8});
  Digest digest;
  for (int i = 0; i < 32; ++i) {
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace neuron::base
