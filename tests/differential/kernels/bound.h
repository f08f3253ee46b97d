// SPDX-License-Identifier: Apache-2.0
// The least time that a kernel can take by the published rates of the chip: no unit can be faster
// than its peak, and all of them work at the same time.
//
// Rates are those of the architecture guides, for one core; nothing of the emulator's cost model is
// used. Callers: tests of this folder. Thread-safe: no state. Fails the test that calls.
#ifndef TESTS_DIFFERENTIAL_KERNELS_BOUND_H
#define TESTS_DIFFERENTIAL_KERNELS_BOUND_H

#include <algorithm>
#include <cstdio>

#include "tests/differential/kernels/outcome.h"

namespace neuron::differential {

// What the definition of a kernel asks for, whatever program computes it.
struct Work {
  double products = 0;  // Multiplications with an addition, of the dense matrices
  double speed = 1;     // Of these against bf16: 1/4 for f32, 4 for block-scaled and sparse ones
  double vector = 0;    // Elements that DVE must stream
  double scalar = 0;    // Elements that Activation must stream
  double bytes = 0;     // Of tensors that must be read or written once
};

struct Rates {
  double products, vector, scalar, bytes;  // A second
};

inline Rates rates_of(unsigned generation) {
  constexpr double kGiga = 1e9, kCells = 128.0 * 128, kLanes = 128;
  switch (generation) {
    case 2:
      return {kCells * 2.8 * kGiga, kLanes * 1.12 * kGiga, kLanes * 1.4 * kGiga, 435 * kGiga};
    case 3:  // 512 elements of 16 bits a cycle on DVE
      return {kCells * 2.4 * kGiga, 4 * kLanes * 0.96 * kGiga, kLanes * 1.2 * kGiga, 435 * kGiga};
    default:
      return {kCells * 2.4 * kGiga, 4 * kLanes * 1.2 * kGiga, 2 * kLanes * 1.2 * kGiga,
              614 * kGiga};
  }
}

inline double bound_ps(const Work& work, unsigned generation) {
  const Rates rates = rates_of(generation);
  return 1e12 * std::max({work.products / work.speed / rates.products, work.vector / rates.vector,
                          work.scalar / rates.scalar, work.bytes / rates.bytes});
}

// A chip on which a kernel gives the bits that it gives on trn1, in a time of its own.
struct LaterChip {
  unsigned generation;
  uint64_t device_ps;
  double least;  // As expect_share_of_bound() has it
};

// The model time is not below the bound, and not further above it than `least` says.
inline void expect_share_of_bound(const Outcome& outcome, const Work& work, unsigned generation,
                                  double least) {
  const double bound = bound_ps(work, generation), time = static_cast<double>(outcome.device_ps);
  ASSERT_GT(time, 0);
  const double share = bound / time;
  std::printf("bound %.2f us, model time %.2f us: %.1f %% of the published rates\n", bound / 1e6,
              time / 1e6, 100 * share);
  EXPECT_LE(share, 1);
  EXPECT_GE(share, least);
}

}  // namespace neuron::differential

#endif
