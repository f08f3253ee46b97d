// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/search.h"

#include <bit>
#include <cmath>

namespace neuron::numerics {
namespace {

// Integers in the order of the values; NaN is the largest.
int32_t key_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return INT32_MAX;
  const auto key = static_cast<int32_t>(bits);
  return key < 0 ? static_cast<int32_t>(bits ^ 0x7FFFFFFFu) : key;
}

float value_of(int32_t key) {
  if (key == INT32_MAX) return std::bit_cast<float>(0x7FC00000u);
  const auto bits = static_cast<uint32_t>(key);
  return std::bit_cast<float>(key < 0 ? bits ^ 0x7FFFFFFFu : bits);
}

}  // namespace

void LargestEight::add(const float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const int32_t key = key_of(x[i]);
    if (key <= keys_[kSearched - 1]) continue;
    size_t place = kSearched - 1;
    for (; place > 0 && keys_[place - 1] < key; --place) keys_[place] = keys_[place - 1];
    keys_[place] = key;
  }
}

std::array<float, kSearched> LargestEight::values() const {
  std::array<float, kSearched> values;
  for (size_t i = 0; i < kSearched; ++i) {
    values[i] = keys_[i] == kLowest ? -INFINITY : value_of(keys_[i]);
  }
  return values;
}

FirstPlaces::FirstPlaces(const float* values, bool last_first) {
  places_.fill(kMissing);
  for (size_t i = 0; i < kSearched; ++i) {
    values_[i] = values[i];
    order_[i] = static_cast<uint8_t>(last_first ? kSearched - 1 - i : i);
    if (values[i] == values[i]) open_ |= 1u << i;  // NaN is never found
  }
}

void FirstPlaces::add(const float* x, uint64_t first, size_t n) {
  if (open_ == 0) return;
  for (size_t i = 0; i < n; ++i) {
    const float value = x[i];
    bool any = false;
    for (size_t v = 0; v < kSearched; ++v) any |= values_[v] == value;
    if (!any) [[likely]] {
      continue;
    }
    // Of equal values, the first one without a place takes it.
    for (const uint8_t v : order_) {
      if ((open_ >> v & 1) == 0 || values_[v] != value) continue;
      places_[v] = static_cast<uint32_t>(first + i);
      open_ &= ~(1u << v);
      break;
    }
    if (open_ == 0) return;
  }
}

}  // namespace neuron::numerics
