// SPDX-License-Identifier: Apache-2.0
// Bitmaps in arrays of 64-bit words, as ndl_crwl_nc_range_mark fills them: bit nr is bit nr % 64 of
// word nr / 64. The caller owns the array and sizes it with NBM_NR_ENT(bits, uint64_t).
#ifndef NDL_BITMAP_H
#define NDL_BITMAP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NBM_NR_BITS(t) (sizeof(t) * 8)
#define NBM_NR_ENT(nr, t) (((nr) + NBM_NR_BITS(t) - 1) / NBM_NR_BITS(t))

// 1 if bit nr is set, else 0.
static inline uint32_t nbitmap_test_bit(uint32_t nr, uint64_t *addr) {
  return (uint32_t)((addr[nr / 64] >> (nr % 64)) & 1u);
}

static inline void nbitmap_set_bit(uint32_t nr, uint64_t *addr) {
  addr[nr / 64] |= (uint64_t)1 << (nr % 64);
}

static inline void nbitmap_clr_bit(uint32_t nr, uint64_t *addr) {
  addr[nr / 64] &= ~((uint64_t)1 << (nr % 64));
}

// Number of the first set bit among nr bits, counted from 1 as ffs() does; 0 if none is set.
static inline uint32_t nbitmap_ffs1(uint32_t nr, uint64_t *addr) {
  uint32_t word;
  for (word = 0; word < NBM_NR_ENT(nr, uint64_t); ++word) {
    const int first = __builtin_ffsl((long)addr[word]);
    if (first != 0) {
      const uint32_t bit = word * 64 + (uint32_t)first;
      return bit <= nr ? bit : 0;
    }
  }
  return 0;
}

// Set bits among the first nr.
static inline uint32_t nbitmap_popcount(uint32_t nr, uint64_t *addr) {
  uint32_t count = 0;
  uint32_t word;
  for (word = 0; word < nr / 64; ++word) {
    count += (uint32_t)__builtin_popcountll(addr[word]);
  }
  if (nr % 64 != 0) {
    count += (uint32_t)__builtin_popcountll(addr[word] & (((uint64_t)1 << (nr % 64)) - 1));
  }
  return count;
}

#ifdef __cplusplus
}
#endif

#endif  // NDL_BITMAP_H
