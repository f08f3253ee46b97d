// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/goldens_v3.h"

namespace neuron::differential {
namespace {

struct Time {
  const Golden& golden;
  uint64_t device_ps;
};

constexpr Time kTimes[] = {
    {kMatmulF32, 12487126},      {kMatmulBf16, 12598492},   {kMatmulBf16Large, 37810923},
    {kSoftmaxF32, 13766339},     {kSoftmaxBf16, 12561635},  {kSoftmaxFewRows, 5437910},
    {kSoftmaxLoop, 13437599},    {kTensorAdd, 14358385},    {kDigits, 7758617},
    {kTransposePe, 7146531},     {kTransposeDve, 7569022},  {kTransposeDma, 15670230},
    {kTransposeDmaOdd, 4152730}, {kLayerNormF32, 24309352}, {kLayerNormBf16, 38110625},
    {kGeluF32, 12938654},        {kGeluBf16, 10962208},     {kGeluMlpF32, 8687206},
    {kGeluMlpBf16, 15884492},
};

}  // namespace

uint64_t device_ps_on_generation_3(const Golden& golden) {
  for (const Time& time : kTimes) {
    if (time.golden.hash == golden.hash) return time.device_ps;
  }
  return 0;
}

}  // namespace neuron::differential
