// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/goldens_v3.h"

namespace neuron::differential {
namespace {

struct Time {
  const Golden& golden;
  uint64_t device_ps;
};

constexpr Time kTimes[] = {
    {kMatmulF32, 11699344},      {kMatmulBf16, 12424312},   {kMatmulBf16Large, 36186283},
    {kSoftmaxF32, 13470025},     {kSoftmaxBf16, 12045329},  {kSoftmaxFewRows, 5977471},
    {kSoftmaxLoop, 15407631},    {kTensorAdd, 13617576},    {kDigits, 9360885},
    {kTransposePe, 7605304},     {kTransposeDve, 8821796},  {kTransposeDma, 33688319},
    {kTransposeDmaOdd, 7940319}, {kLayerNormF32, 23933301}, {kLayerNormBf16, 36698956},
    {kGeluF32, 12024138},        {kGeluBf16, 12024138},     {kGeluMlpF32, 9963127},
    {kGeluMlpBf16, 16557885},
};

}  // namespace

uint64_t device_ps_on_generation_3(const Golden& golden) {
  for (const Time& time : kTimes) {
    if (time.golden.hash == golden.hash) return time.device_ps;
  }
  return 0;
}

}  // namespace neuron::differential
