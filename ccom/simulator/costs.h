// SPDX-License-Identifier: Apache-2.0
// Picoseconds of steps and messages: the arithmetic of both engines, which makes them agree to the
// last digit.
//
// Thread-safe: functions of their arguments. Cannot fail.
#ifndef CCOM_SIMULATOR_COSTS_H
#define CCOM_SIMULATOR_COSTS_H

#include <cstdint>

#include "ccom/schedule/step.h"
#include "ccom/simulator/simulator.h"

namespace neuron::ccom {

inline double ps_per_byte(double bytes_per_second) {
  return bytes_per_second > 0 ? 1e12 / bytes_per_second : 0;
}

inline uint64_t occupancy_ps(uint64_t bytes, double per_byte) {
  return static_cast<uint64_t>(static_cast<double>(bytes) * per_byte + 0.5);
}

struct LocalCosts {
  uint64_t local_ps;
  double reduce;
  double copy;

  explicit LocalCosts(const StepCosts& costs)
      : local_ps(costs.local_ps),
        reduce(ps_per_byte(costs.reduce_bytes_per_second)),
        copy(ps_per_byte(costs.copy_bytes_per_second)) {}

  // Of a reduction, copy or duplicate.
  uint64_t of(const StepWork& work) const {
    return local_ps +
           occupancy_ps(work.bytes * work.peer, work.kind == StepKind::kReduce ? reduce : copy);
  }
};

// Uniform in [0, most]; depends on the flow (both ends) and the number of the message.
inline uint64_t jitter_ps(uint64_t most, uint64_t seed, uint64_t flow, uint64_t message) {
  if (most == 0) return 0;
  uint64_t x = seed * 0x9E3779B97F4A7C15u ^ flow * 0xBF58476D1CE4E5B9u ^ message;
  for (int i = 0; i < 2; ++i) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
  }
  return static_cast<uint64_t>((static_cast<unsigned __int128>(x) * (most + 1)) >> 64);
}

}  // namespace neuron::ccom

#endif
