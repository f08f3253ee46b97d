// SPDX-License-Identifier: Apache-2.0
// Values with which an instruction of the processor is tried once, before products trust it to give
// the defined bits: ordinary ones, tiny ones, infinities and NaN, by rounds.
// Callers: tensor_kernel_amx.cpp, tensor_kernel_pairs.cpp. One thread. Cannot fail.
#ifndef DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_TRIAL_H
#define DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_TRIAL_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace neuron::numerics {

class TrialValues {
 public:
  static constexpr int kRounds = 24;
  // The next bf16 code of a round.
  uint16_t next(int round) {
    const uint32_t r = random();
    if (round % 8 == 7 && r % 61 == 0) return r & 0x80 ? 0x7F80 : 0x7FC1;
    const uint32_t exponent = round % 3 == 0 ? 120 + r % 12 : round % 3 == 1 ? 60 + r % 8 : r % 5;
    return static_cast<uint16_t>((random() & 0x807F) | exponent << 7);
  }
  static float value_of(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }
  // What a product of the round is added to.
  static float start_of(int round) { return round % 2 ? -0.0f : 0x1p-3f; }
  // Equal bits, or both NaN.
  static bool same(float expected, float got) {
    if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
    return std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(got);
  }

 private:
  uint32_t state_ = 1;
  uint32_t random() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }
};

}  // namespace neuron::numerics

#endif
