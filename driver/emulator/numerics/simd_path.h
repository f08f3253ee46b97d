// SPDX-License-Identifier: Apache-2.0
// Which instruction set the numerics run on. Every path gives the same bits; the choice is speed
// only.
//
// The best path of the host is taken at first use, or the one that the environment variable
// NEURON_EMULATOR_SIMD names (scalar, avx2, avx512, avx512bf16, amx), so that one machine can prove
// that all paths agree. A name that is unknown or that the host lacks is reported once on stderr
// and the best path is used. select_simd_path is for tests and benchmarks: it changes the path of
// the whole process. Thread-safe; nothing here fails.
#ifndef DRIVER_EMULATOR_NUMERICS_SIMD_PATH_H
#define DRIVER_EMULATOR_NUMERICS_SIMD_PATH_H

#include <cstdint>

namespace neuron::numerics {

// kAvx512Bf16 and kAmx are kAvx512, but with matrix products of bf16 and f8 on VDPBF16PS and on
// tile instructions.
enum class SimdPath : uint8_t { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmx };

SimdPath simd_path();
const char* simd_path_name(SimdPath path);
bool simd_path_supported(SimdPath path);
// Returns false, and changes nothing, when the host lacks the path.
bool select_simd_path(SimdPath path);

}  // namespace neuron::numerics
#endif
