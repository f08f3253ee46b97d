// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/code_tables.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>

#include "driver/emulator/numerics/block_scaled.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/simd_path.h"
#include "hw/isa.h"

// The library is compiled for processors without these instructions, too.
#define NEURON_TABLES_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))

namespace neuron::numerics::code_tables {
namespace {

constexpr size_t kCodes = 64;  // in a register
constexpr size_t kHalf = kCodes / 2;
constexpr size_t kEntries = 128;
constexpr short kInfinity = 0x7F80, kNan = 0x7FC0;

// The bytes of the bf16 of each code without its sign, which bit 7 of the code is; of f4, whose
// codes are below 16, with it.
struct Table {
  alignas(64) uint8_t low[kEntries] = {};
  alignas(64) uint8_t high[kEntries] = {};

  explicit Table(unsigned dtype) {
    for (size_t code = 0; code < kEntries; ++code) {
      const auto byte = static_cast<std::byte>(code);
      put(code, widen_one(dtype, &byte));
    }
  }
  Table() {
    for (unsigned code = 0; code < 16; ++code) put(code, f4_number(code));
  }

 private:
  void put(size_t code, float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    low[code] = static_cast<uint8_t>(bits >> 16);
    high[code] = static_cast<uint8_t>(bits >> 24);
  }
};

const Table& table_of(unsigned dtype) {
  static const Table f8e3(NEURON_DTYPE_F8E3), f8e4(NEURON_DTYPE_F8E4), f8e5(NEURON_DTYPE_F8E5),
      f8e4fn(NEURON_DTYPE_F8E4FN), f4;
  switch (dtype) {
    case NEURON_DTYPE_F8E3:
      return f8e3;
    case NEURON_DTYPE_F8E4:
      return f8e4;
    case NEURON_DTYPE_F8E5:
      return f8e5;
    case NEURON_DTYPE_F8E4FN:
      return f8e4fn;
    default:
      return f4;
  }
}

struct Registers {
  __m512i low[2], high[2];
};
struct Halves {
  __m512i first, second;  // 32 numbers each
};

NEURON_TABLES_TARGET inline Registers load(const Table& table) {
  return {{_mm512_load_si512(table.low), _mm512_load_si512(table.low + kCodes)},
          {_mm512_load_si512(table.high), _mm512_load_si512(table.high + kCodes)}};
}

NEURON_TABLES_TARGET inline Halves look_up(const Registers& table, __m512i codes) {
  // Unpacking works on 16 bytes by themselves: the order in which its results come out right.
  codes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), codes);
  const __m512i low = _mm512_permutex2var_epi8(table.low[0], codes, table.low[1]);
  const __m512i sign = _mm512_and_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i high =
      _mm512_or_si512(_mm512_permutex2var_epi8(table.high[0], codes, table.high[1]), sign);
  return {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
}

// 32 numbers times 2^(scale - 127): as times_scale of block_scaled.cpp, whose comments hold here.
NEURON_TABLES_TARGET inline __m512i times_scales(__m512i number, __m256i scales) {
  const __m512i scale = _mm512_cvtepu8_epi16(scales);
  const __m512i steps = _mm512_sub_epi16(scale, _mm512_set1_epi16(NEURON_MX_SCALE_BIAS));
  const __m512i magnitude = _mm512_and_si512(number, _mm512_set1_epi16(0x7FFF));
  const __m512i exponent = _mm512_add_epi16(_mm512_srli_epi16(magnitude, 7), steps);
  const __m512i infinity = _mm512_set1_epi16(kInfinity);
  __m512i moved = _mm512_add_epi16(magnitude, _mm512_slli_epi16(steps, 7));
  const __mmask32 large = _mm512_cmpgt_epi16_mask(exponent, _mm512_set1_epi16(254)) |
                          _mm512_cmpeq_epi16_mask(magnitude, infinity);
  moved = _mm512_mask_mov_epi16(moved, large, infinity);
  const __mmask32 present = _mm512_cmpeq_epi16_mask(magnitude, infinity) |
                            (_mm512_cmpgt_epi16_mask(exponent, _mm512_setzero_si512()) &
                             _mm512_test_epi16_mask(magnitude, magnitude));
  moved = _mm512_maskz_mov_epi16(present, moved);
  moved = _mm512_or_si512(moved,
                          _mm512_and_si512(number, _mm512_set1_epi16(static_cast<short>(0x8000))));
  const __mmask32 none = _mm512_cmpgt_epi16_mask(magnitude, infinity) |
                         _mm512_cmpeq_epi16_mask(scale, _mm512_set1_epi16(NEURON_MX_SCALE_NAN));
  return _mm512_mask_mov_epi16(moved, none, _mm512_set1_epi16(kNan));
}

// Bits 0 to n - 1, of 64 at most.
uint64_t first_bits(size_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

NEURON_TABLES_TARGET inline void store(const Halves& numbers, uint16_t* out, size_t n) {
  if (n >= kCodes) {
    _mm512_storeu_si512(out, numbers.first);
    _mm512_storeu_si512(out + kHalf, numbers.second);
    return;
  }
  const uint64_t present = first_bits(n);
  _mm512_mask_storeu_epi16(out, static_cast<__mmask32>(present), numbers.first);
  _mm512_mask_storeu_epi16(out + kHalf, static_cast<__mmask32>(present >> kHalf), numbers.second);
}

// Byte `code` of the n first elements of four bytes, or their nibble of two.
NEURON_TABLES_TARGET inline __m512i codes_of_words(const std::byte* elements, unsigned code,
                                                   size_t n) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<uint8_t, kCodes> places{};
    for (size_t i = 0; i < kHalf; ++i) places[i] = static_cast<uint8_t>(4 * i);
    return places;
  }();
  const __m512i places =
      _mm512_add_epi8(_mm512_load_si512(kPlaces.data()), _mm512_set1_epi8(static_cast<char>(code)));
  __m512i words[4];
  for (size_t i = 0; i < 4; ++i) {
    const size_t before = 16 * i;
    const auto present = static_cast<__mmask16>(first_bits(n > before ? n - before : 0));
    words[i] = _mm512_maskz_loadu_epi32(present, elements + 4 * before);
  }
  const __m512i first = _mm512_permutex2var_epi8(words[0], places, words[1]);
  const __m512i second = _mm512_permutex2var_epi8(words[2], places, words[3]);
  return _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
}
NEURON_TABLES_TARGET inline __m512i codes_of_halves(const std::byte* elements, unsigned code,
                                                    size_t n) {
  const uint64_t present = first_bits(n);
  const __m512i first = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(present), elements);
  const __m512i second =
      _mm512_maskz_loadu_epi16(static_cast<__mmask32>(present >> kHalf), elements + 2 * kHalf);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(4 * code));
  const __m512i nibble = _mm512_set1_epi16(15);
  const __m256i low =
      _mm512_cvtepi16_epi8(_mm512_and_si512(_mm512_srl_epi16(first, shift), nibble));
  const __m256i high =
      _mm512_cvtepi16_epi8(_mm512_and_si512(_mm512_srl_epi16(second, shift), nibble));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

}  // namespace

bool available() {
  static const bool has_instruction = __builtin_cpu_supports("avx512vbmi");
  const SimdPath path = simd_path();
  return has_instruction && (path == SimdPath::kAmx || path == SimdPath::kAvx512Bf16);
}

NEURON_TABLES_TARGET void to_bf16(unsigned dtype, const std::byte* src, uint16_t* out, size_t n) {
  const Registers table = load(table_of(dtype));
  for (size_t at = 0; at < n; at += kCodes) {
    const __m512i codes = _mm512_maskz_loadu_epi8(first_bits(n - at), src + at);
    store(look_up(table, codes), out + at, n - at);
  }
}

NEURON_TABLES_TARGET void scaled_to_bf16(unsigned x4_type, const std::byte* elements, unsigned code,
                                         const std::byte* scales, uint16_t* out, size_t n) {
  const Registers table = load(table_of(code_type(x4_type)));
  const bool halves = x4_type == NEURON_DTYPE_F4X4;
  for (size_t at = 0; at < n; at += kCodes) {
    const size_t count = std::min(kCodes, n - at);
    const __m512i codes = halves ? codes_of_halves(elements + 2 * at, code, count)
                                 : codes_of_words(elements + 4 * at, code, count);
    const Halves numbers = look_up(table, codes);
    const __m512i scale = _mm512_maskz_loadu_epi8(first_bits(count), scales + at);
    store({times_scales(numbers.first, _mm512_castsi512_si256(scale)),
           times_scales(numbers.second, _mm512_extracti64x4_epi64(scale, 1))},
          out + at, count);
  }
}

}  // namespace neuron::numerics::code_tables
