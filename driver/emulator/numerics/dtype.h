// SPDX-License-Identifier: Apache-2.0
// Element types (NEURON_DTYPE_*) in memory and their conversion to and from the fp32 that engines
// compute in.
//
// widen: exact for every float type; tf32 rounds to 10 mantissa bits; i32 and u32 round to nearest
// even. narrow: one rounding, nearest even or stochastic. Overflow gives infinity (f8e4fn: NaN), or
// the largest finite value when `saturate`, which also clamps infinities. NaN stays NaN; integers
// round to nearest even, clamp to their range, NaN gives 0. Subnormals are kept: the arithmetic
// flushes them where it must. Callers: engines, DMA casts. Any thread; MXCSR has no influence and
// comes back as it was. An unsupported type is the caller's bug (ask `is_convertible` first): its
// elements read as 0, and nothing is written. Pointers need no alignment.
#ifndef DRIVER_EMULATOR_NUMERICS_DTYPE_H
#define DRIVER_EMULATOR_NUMERICS_DTYPE_H

#include <cstddef>
#include <cstdint>

#include "driver/emulator/numerics/random.h"
#include "hw/isa.h"

namespace neuron::numerics {

// 0 for codes that name no type.
unsigned element_bytes(unsigned dtype);
// True for the types that widen and narrow know: all of generation 2 except u64 and i64, and
// f8e4fn.
bool is_convertible(unsigned dtype);
bool is_float(unsigned dtype);
bool is_integer(unsigned dtype);

enum class Rounding : uint8_t { kNearestEven, kStochastic };

struct NarrowMode {
  Rounding rounding = Rounding::kNearestEven;
  bool saturate = false;
  uint8_t bias = 0;  // exponent bias of f8e3, f8e4, f8e5; 0 = the type's default
};

float widen_one(unsigned dtype, const std::byte* src, uint8_t bias = 0);
// `random` decides stochastic rounding and is ignored otherwise.
void narrow_one(unsigned dtype, float value, std::byte* dst, const NarrowMode& mode = {},
                uint32_t random = 0);

// dst[i] = src element at i * step; step in elements, 0 repeats one element, negative walks back.
void widen(unsigned dtype, const std::byte* src, ptrdiff_t step, float* dst, size_t n,
           uint8_t bias = 0);
// Element i of src goes to dst + i * step elements, in ascending order of i: of several writes to
// an address, the last one stays. Stochastic rounding consumes one word of `random` per element,
// whatever the element's value. If `random` is null, it rounds to nearest.
void narrow(unsigned dtype, const float* src, std::byte* dst, ptrdiff_t step, size_t n,
            const NarrowMode& mode = {}, RandomStream* random = nullptr);

}  // namespace neuron::numerics
#endif
