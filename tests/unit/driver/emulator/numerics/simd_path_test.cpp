// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/simd_path.h"

#include <gtest/gtest.h>

namespace neuron::numerics {
namespace {

TEST(SimdPath, SelectsOnlyWhatTheProcessorHas) {
  const SimdPath before = simd_path();
  for (SimdPath path :
       {SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kAvx512, SimdPath::kAvx512Bf16}) {
    const SimdPath current = simd_path();
    EXPECT_EQ(select_simd_path(path), simd_path_supported(path));
    EXPECT_EQ(simd_path(), simd_path_supported(path) ? path : current);
  }
  EXPECT_TRUE(simd_path_supported(SimdPath::kScalar));
  select_simd_path(before);
}

TEST(SimdPath, NamesAreTheValuesOfTheEnvironmentVariable) {
  EXPECT_STREQ(simd_path_name(SimdPath::kScalar), "scalar");
  EXPECT_STREQ(simd_path_name(SimdPath::kAvx2), "avx2");
  EXPECT_STREQ(simd_path_name(SimdPath::kAvx512), "avx512");
  EXPECT_STREQ(simd_path_name(SimdPath::kAvx512Bf16), "avx512bf16");
}

}  // namespace
}  // namespace neuron::numerics
