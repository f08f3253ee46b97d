// SPDX-License-Identifier: Apache-2.0
#include "driver/base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace neuron::base {
namespace {

// How many letters have to be changed, added or taken away.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({corner + (a[i] != b[j] ? 1 : 0), above + 1, row[j] + 1});
      corner = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  constexpr size_t kNear = 6;
  std::string_view nearest;
  size_t least = std::min(kNear, name.size() / 2) + 1;
  for (const std::string_view known : names) {
    const size_t letters = distance(name, known);
    if (letters >= least) continue;
    least = letters;
    nearest = known;
  }
  return nearest;
}

}  // namespace neuron::base
