// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/unit/ccom/simulator/rings.h"

namespace neuron::ccom {
namespace {

// The preset marked FITTED: 235 MB, 15 us between nodes, a window of 1, 8 channels, static shares.
constexpr uint64_t kPresetBytes = 235'000'000;

double microseconds(uint32_t chips, bool two_d, uint64_t bytes, uint32_t window) {
  RingShape shape;
  shape.channels = 8;
  shape.two_d = two_d;
  const auto result = simulate_ring(chips, shape, bytes, window, divided());
  EXPECT_TRUE(result) << result.error().sentence;
  return result ? static_cast<double>(result->time_ps) * 1e-6 : 0;
}

TEST(TwoDRing, ThePresetReproducesTheProductChart) {
  double last = 0;
  for (uint32_t chips : {16, 32, 64, 128, 256, 512}) {
    const double flat = microseconds(chips, false, kPresetBytes, 1);
    const double two_d = microseconds(chips, true, kPresetBytes, 1);
    const double change = (two_d / flat - 1) * 100;
    if (chips == 16) {
      EXPECT_NEAR(change, 0, 2);
    }
    if (chips == 512) {
      EXPECT_NEAR(change, -75, 3);
    }
    EXPECT_LE(change, last + 0.01) << chips << " chips";
    last = change;
  }
}

// Numbers of an independent simulator of rings, whose hops have latency, rate and window only. It
// ends when the last credits are back: one latency of each phase's links later.
TEST(TwoDRing, AgreesWithAnIndependentModelOfRings) {
  const struct {
    uint32_t chips;
    double flat, two_d;
  } rows[] = {{16, 1965, 1965},   {32, 5580, 3945},   {64, 7560, 5025},
              {128, 11430, 5745}, {256, 19125, 6465}, {512, 34493, 7545}};
  for (const auto& row : rows) {
    const double flat = row.flat - (row.chips == 16 ? 1.5 : 15);
    const double two_d = row.two_d - (row.chips == 16 ? 1.5 : 18);
    EXPECT_NEAR(microseconds(row.chips, false, 192'000'000, 1), flat, flat * 1e-3)
        << row.chips << " chips";
    EXPECT_NEAR(microseconds(row.chips, true, 192'000'000, 1), two_d, two_d * 1e-3)
        << row.chips << " chips";
  }
  EXPECT_NEAR(microseconds(512, false, 192'000'000, 4), 8640 - 15, 8640 * 1e-3);
}

// Flat, in two dimensions, and in a pipeline of two or more segments, whichever number is the best.
struct Rings {
  double flat, two_d, pipelined;
};

Rings rings(uint32_t chips, uint64_t bytes, uint32_t window) {
  RingShape shape;
  shape.channels = 8;
  const auto time = [&] {
    const auto result = simulate_ring(chips, shape, bytes, window, {});
    EXPECT_TRUE(result) << result.error().sentence;
    return result ? static_cast<double>(result->time_ps) : 0;
  };
  Rings times{.flat = time(), .two_d = 0, .pipelined = std::numeric_limits<double>::infinity()};
  shape.two_d = true;
  times.two_d = time();
  for (const uint32_t segments : {2, 4, 8, 16}) {
    shape.segments = segments;
    times.pipelined = std::min(times.pipelined, time());
  }
  return times;
}

TEST(TwoDRing, FromHalfAMegabyteAChipOnAPipelineIsAtMostFourPercentSlowerThanTheBetterOther) {
  for (const uint32_t window : {1u, 4u}) {
    for (const uint64_t kilobytes : {500, 1000, 1500, 2000, 4000}) {
      for (const uint32_t chips : {32, 64, 128, 256, 512}) {
        const Rings times = rings(chips, chips * kilobytes * 1000, window);
        EXPECT_LE(times.pipelined, 1.04 * std::min(times.flat, times.two_d))
            << kilobytes << " kB a chip, " << chips << " chips, window " << window;
      }
    }
  }
}

TEST(TwoDRing, OfOneMegabyteAPipelineIsSlowerThanOneSegmentByLessThanItsTime) {
  for (const uint32_t window : {1u, 4u}) {
    for (const uint32_t chips : {32, 64, 128, 256, 512}) {
      const Rings times = rings(chips, 1'000'000, window);
      EXPECT_GT(times.pipelined, times.two_d) << chips << " chips, window " << window;
      EXPECT_LT(times.pipelined, 2 * times.two_d) << chips << " chips, window " << window;
    }
  }
}

}  // namespace
}  // namespace neuron::ccom
