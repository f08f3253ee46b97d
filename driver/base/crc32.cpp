// SPDX-License-Identifier: Apache-2.0
#include "driver/base/crc32.h"

#include <immintrin.h>

#include <array>

#include "driver/base/sliced_crc.h"

namespace neuron::base {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;  // 0x04C11DB7 with its bits reversed
constexpr size_t kBlock = 16;

// x to the power of n modulo the polynomial, with its bits reversed and one place higher, since a
// product without carry of two reversed numbers of 64 bits lies one place too low.
constexpr uint64_t power(unsigned n) {
  uint32_t value = 0x80000000;  // x to the power of 0
  for (; n != 0; --n) value = (value >> 1) ^ (value & 1 ? kPolynomial : 0);
  return uint64_t{value} << 1;
}

// The upper and the lower half of a block, 128 bits further on.
constexpr uint64_t kFold[2] = {power(128 + 32), power(128 - 32)};

// From byte n on, as indices of a shuffle, these move the bytes of a block 16 - n places up, and
// from byte 16 + n on, n places down; zeros follow.
alignas(kBlock) constexpr std::array<uint8_t, 3 * kBlock> kShifts = [] {
  std::array<uint8_t, 3 * kBlock> shifts{};
  for (size_t n = 0; n < shifts.size(); ++n) {
    shifts[n] = static_cast<uint8_t>(n / kBlock == 1 ? n % kBlock : 0x80);
  }
  return shifts;
}();

// A block at a time by multiplication without carry: what was read so far is multiplied by x to the
// power of 128 and reduced to 128 bits, which the next block is added to. At least two blocks.
[[gnu::target("pclmul,sse4.1")]] uint32_t folded(std::span<const uint8_t> bytes) {
  const auto block = [&](const uint8_t* at) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  };
  const __m128i factor =
      _mm_set_epi64x(static_cast<int64_t>(kFold[1]), static_cast<int64_t>(kFold[0]));
  // Zeros in front change nothing, so the first block is made whole with them. The initial value is
  // added to the first four bytes, of which some may be in the second block.
  const size_t head = (bytes.size() - 1) % kBlock + 1;
  const __m128i initial = _mm_cvtsi32_si128(-1);
  __m128i sum =
      _mm_shuffle_epi8(_mm_xor_si128(block(bytes.data()), initial), block(kShifts.data() + head));
  __m128i more = _mm_shuffle_epi8(initial, block(kShifts.data() + kBlock + head));
  for (auto rest = bytes.subspan(head); !rest.empty(); rest = rest.subspan(kBlock)) {
    const __m128i next = _mm_xor_si128(block(rest.data()), more);
    more = _mm_setzero_si128();
    sum = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(sum, factor, 0x00),
                                      _mm_clmulepi64_si128(sum, factor, 0x11)),
                        next);
  }
  // The remainder of the block that is left; the initial value is in it.
  alignas(kBlock) std::array<uint8_t, kBlock> left;
  _mm_store_si128(reinterpret_cast<__m128i*>(left.data()), sum);
  return ~SlicedCrc<kPolynomial>::advance(0, left);
}

}  // namespace

uint32_t crc32(std::span<const uint8_t> bytes) {
  static const bool multiplies =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (multiplies && bytes.size() >= 2 * kBlock) return folded(bytes);
  return SlicedCrc<kPolynomial>::of(bytes);
}

}  // namespace neuron::base
