// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/tensor_kernel_amx.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "driver/emulator/numerics/tensor_kernel_scalar.h"
#include "driver/emulator/numerics/tensor_kernel_tiles-inl.h"
#include "driver/emulator/numerics/tensor_kernel_trial.h"

namespace neuron::numerics {
namespace {

// Assembly instead of intrinsics: the library is compiled for processors without AMX, too, and tile
// numbers come from templates.
struct Processor {
  template <int T>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void load(const void* from, ptrdiff_t row_bytes) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(T), "r"(from), "r"(row_bytes)
                     : "memory");
  }
  template <int T>
  static void store(void* to, ptrdiff_t row_bytes) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(T), "r"(to), "r"(row_bytes) : "memory");
  }
  template <int C, int A, int B>
  static void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

bool processor_has_amx() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
  if ((d & (kBf16 | kTile)) != (kBf16 | kTile)) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Products of 32 rows, 32 columns and 64 deep: ordinary values, tiny ones, infinities, NaN.
bool gives_the_defined_bits() {
  constexpr int kSize = 32, kDeep = 64, kSteps = kDeep / tiles::kDepth;
  TrialValues trial;
  for (int round = 0; round < TrialValues::kRounds; ++round) {
    std::vector<float> a(kDeep * kSize), b(kDeep * kSize), found(kSize * kSize);
    std::vector<uint16_t> a16(kDeep * kSize), b16(kDeep * kSize);
    alignas(64) uint16_t weights[kDeep * kSize], moving[kDeep * kSize];
    for (size_t i = 0; i < a.size(); ++i) {
      a16[i] = trial.next(round);
      b16[i] = trial.next(round);
      a[i] = TrialValues::value_of(a16[i]);
      b[i] = TrialValues::value_of(b16[i]);
    }
    tiles::pack_stationary([&](int r) { return a16.data() + r * kSize; }, kDeep, kSize, kSteps,
                           weights);
    tiles::pack_moving([&](int r) { return b16.data() + r * kSize; }, kDeep, kSteps, kSize, moving);
    const float start = TrialValues::start_of(round);
    std::fill(found.begin(), found.end(), start);
    {
      const AmxScope scope;
      multiply_on_amx(weights, kSize, moving, kSize, kSteps, found.data(), kSize, true);
    }
    for (int m = 0; m < kSize; ++m) {
      for (int n = 0; n < kSize; ++n) {
        const float expected =
            dot_in_engine_order(a.data() + m, kSize, b.data() + n, kSize, kDeep, start);
        const float got = found[m * kSize + n];
        if (!TrialValues::same(expected, got)) return false;
      }
    }
  }
  return true;
}

}  // namespace

AmxScope::AmxScope() {
  const TileConfiguration configuration;
  __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
}

AmxScope::~AmxScope() { __asm__ volatile("tilerelease"); }

void multiply_on_amx(const uint16_t* weights, int m, const uint16_t* moving, size_t columns,
                     int steps, float* c, ptrdiff_t c_stride, bool accumulate) {
  tiles::multiply_columns<Processor>(weights, m, moving, columns, steps, c, c_stride, accumulate);
}

bool amx_available() {
  static const bool available = processor_has_amx() && gives_the_defined_bits();
  return available;
}

}  // namespace neuron::numerics
