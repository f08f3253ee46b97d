// SPDX-License-Identifier: Apache-2.0
// Finds the eight largest values of a row, and the places of eight values, from pieces of the row.
//
// Order: -0 below +0, NaN above everything (as max gives NaN). Equality is that of fp32: -0 equals
// +0, NaN equals nothing. One object per row, on the stack; no allocation, no failure.
#ifndef DRIVER_EMULATOR_NUMERICS_SEARCH_H
#define DRIVER_EMULATOR_NUMERICS_SEARCH_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

inline constexpr size_t kSearched = 8;

// The largest values seen, descending, duplicates kept.
class LargestEight {
 public:
  void add(const float* x, size_t n);
  // Slots without an element are -inf.
  std::array<float, kSearched> values() const;

 private:
  static constexpr int32_t kLowest = INT32_MIN;
  std::array<int32_t, kSearched> keys_{kLowest, kLowest, kLowest, kLowest,
                                       kLowest, kLowest, kLowest, kLowest};
};

// Where eight values first occur. Equal values among the eight take successive occurrences: in
// ascending order of their number, or in descending order (`last_first`).
class FirstPlaces {
 public:
  static constexpr uint32_t kMissing = 0xFFFFFFFF;
  FirstPlaces(const float* values, bool last_first);
  // Elements [first, first + n) of the row.
  void add(const float* x, uint64_t first, size_t n);
  const std::array<uint32_t, kSearched>& places() const { return places_; }
  bool complete() const { return open_ == 0; }

 private:
  std::array<float, kSearched> values_;
  std::array<uint32_t, kSearched> places_;
  std::array<uint8_t, kSearched> order_;  // numbers of the values in the order they take places
  unsigned open_ = 0;                     // bit i: value i has no place yet
};

}  // namespace neuron::numerics
#endif
