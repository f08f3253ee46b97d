// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/simd_path.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/emulator/numerics/tensor_kernel_amx.h"
#include "driver/emulator/numerics/tensor_kernel_pairs.h"

namespace neuron::numerics {
namespace {

constexpr SimdPath kAll[] = {SimdPath::kAmx, SimdPath::kAvx512Bf16, SimdPath::kAvx512,
                             SimdPath::kAvx2, SimdPath::kScalar};

SimdPath best() {
  for (SimdPath path : kAll) {
    if (simd_path_supported(path)) return path;
  }
  return SimdPath::kScalar;
}

SimdPath initial() {
  const char* wanted = std::getenv("NEURON_EMULATOR_SIMD");
  if (!wanted || !*wanted) return best();
  for (SimdPath path : kAll) {
    if (std::strcmp(wanted, simd_path_name(path)) == 0 && simd_path_supported(path)) return path;
  }
  std::fprintf(stderr,
               "NEURON_EMULATOR_SIMD is \"%.32s\", which is not one of scalar, avx2, avx512, "
               "avx512bf16, amx or not "
               "available on this processor; using %s (results are the same on every path)\n",
               wanted, simd_path_name(best()));
  return best();
}

// Relaxed everywhere: this value does not order any other memory.
std::atomic<SimdPath>& current() {
  static std::atomic<SimdPath> path{initial()};
  return path;
}

}  // namespace

SimdPath simd_path() { return current().load(std::memory_order_relaxed); }

const char* simd_path_name(SimdPath path) {
  switch (path) {
    case SimdPath::kAmx:
      return "amx";
    case SimdPath::kAvx512Bf16:
      return "avx512bf16";
    case SimdPath::kAvx512:
      return "avx512";
    case SimdPath::kAvx2:
      return "avx2";
    default:
      return "scalar";
  }
}

bool simd_path_supported(SimdPath path) {
  // The features that the compiled Highway targets use, not only the ones in their names.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  switch (path) {
    case SimdPath::kAmx:
      return simd_path_supported(SimdPath::kAvx512) && amx_available();
    case SimdPath::kAvx512Bf16:
      return simd_path_supported(SimdPath::kAvx512) && pairs::available();
    case SimdPath::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd");
    case SimdPath::kAvx2:
      return avx2;
    default:
      return true;
  }
}

bool select_simd_path(SimdPath path) {
  if (!simd_path_supported(path)) return false;
  current().store(path, std::memory_order_relaxed);
  return true;
}

}  // namespace neuron::numerics
