// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/random_simd.h"

#include "driver/emulator/numerics/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/random_simd.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;  // NOLINT(misc-unused-alias-decls): one lane does without it

#if HWY_TARGET == HWY_SCALAR

HWY_NOINLINE size_t philox_kernel(uint64_t, uint32_t, uint64_t, uint32_t*, size_t) { return 0; }

#else

using Words = hn::ScalableTag<uint32_t>;
using Wide = hn::Repartition<uint64_t, Words>;
using W = hn::Vec<Words>;

// Both halves of x * m, lane by lane.
HWY_INLINE W product(W x, W m, W& high) {
  const Wide wide;
  const auto even = hn::BitCast(wide, hn::MulEven(x, m));
  const auto odd = hn::BitCast(
      wide, hn::MulEven(hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(wide, x))), m));
  const auto upper = hn::Set(wide, 0xFFFFFFFF00000000ull);
  high = hn::BitCast(Words(), hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper)));
  return hn::Mul(x, m);
}

// One block per lane; returns how many blocks were made.
HWY_NOINLINE size_t philox_kernel(uint64_t seed, uint32_t lane, uint64_t first, uint32_t* out,
                                  size_t count) {
  const Words d;
  const size_t lanes = hn::Lanes(d);
  const W multiply0 = hn::Set(d, 0xD2511F53u), multiply1 = hn::Set(d, 0xCD9E8D57u);
  size_t done = 0;
  for (; done + lanes <= count; done += lanes) {
    const uint64_t number = first + done;
    if ((number & 0xFFFFFFFFu) + lanes > 0x100000000ull) break;  // a carry inside the vector
    W c0 = hn::Add(hn::Set(d, static_cast<uint32_t>(number)), hn::Iota(d, 0));
    W c1 = hn::Set(d, static_cast<uint32_t>(number >> 32));
    W c2 = hn::Set(d, lane);
    W c3 = hn::Zero(d);
    auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      W high0, high1;
      const W low0 = product(c0, multiply0, high0);
      const W low1 = product(c2, multiply1, high1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1));
      c1 = low1;
      c3 = low0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, out + 4 * done);
  }
  return done;
}

#endif

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {

void philox_blocks(uint64_t seed, uint32_t lane, uint64_t first, uint32_t* out, size_t count) {
  size_t block = NEURON_ON_SIMD_PATH(philox_kernel, seed, lane, first, out, count);
  for (; block < count; ++block) {
    const uint64_t number = first + block;
    const auto words =
        philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), lane, 0},
                   {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    for (size_t w = 0; w < 4; ++w) out[4 * block + w] = words[w];
  }
}

}  // namespace neuron::numerics
#endif
