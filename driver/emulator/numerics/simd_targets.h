// SPDX-License-Identifier: Apache-2.0
// Which Highway targets the numerics are compiled for, and how a call reaches the chosen one.
//
// Included before <hwy/foreach_target.h>. Three targets: AVX-512 (HWY_AVX3), AVX2 with FMA, and one
// lane of plain C++. SSE is left out because it has no fused multiply-add. The dispatch is our own,
// not Highway's, because an operator can force the path and all functions must take the same one.
#ifndef DRIVER_EMULATOR_NUMERICS_SIMD_TARGETS_H
#define DRIVER_EMULATOR_NUMERICS_SIMD_TARGETS_H

#include "driver/emulator/numerics/simd_path.h"

#define HWY_BROKEN_EMU128 1           // the baseline is HWY_SCALAR
#define HWY_COMPILE_ALL_ATTAINABLE 1  // whatever -march the build was given
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_SCALAR))

// NEURON_ON_SIMD_PATH(f, args...): calls f of the namespace of the current path.
#define NEURON_ON_SIMD_PATH(function, ...)                          \
  (simd_path() >= SimdPath::kAvx512 ? N_AVX3::function(__VA_ARGS__) \
   : simd_path() == SimdPath::kAvx2 ? N_AVX2::function(__VA_ARGS__) \
                                    : N_SCALAR::function(__VA_ARGS__))

#endif
