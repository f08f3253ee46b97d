// SPDX-License-Identifier: Apache-2.0
// XORWOW (Marsaglia, Xorshift RNGs, 2003): the random words of Pool from generation 3 on, and of
// Vector from generation 4 on.
//
// The state is five words x, y, z, w, v of a xorshift generator and the counter d, in this order:
// what rand_set_state and rand_get_state move. Callers: vector_random.cpp. A value; cannot fail.
#ifndef DRIVER_EMULATOR_NUMERICS_XORWOW_H
#define DRIVER_EMULATOR_NUMERICS_XORWOW_H

#include <array>
#include <cstdint>

namespace neuron::numerics {

struct Xorwow {
  static constexpr unsigned kWords = 6;
  std::array<uint32_t, kWords> words{};

  uint32_t next() {
    auto& [x, y, z, w, v, d] = words;
    const uint32_t t = x ^ x >> 2;
    x = y;
    y = z;
    z = w;
    w = v;
    v = (v ^ v << 4) ^ (t ^ t << 1);
    d += 362437;
    return d + v;
  }
};

}  // namespace neuron::numerics

#endif
