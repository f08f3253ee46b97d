// SPDX-License-Identifier: Apache-2.0
#include "driver/base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace neuron::base {
namespace {

// How many letters have to be changed, added, taken away, or swapped with the next one.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({above[j] + (a[i] != b[j] ? 1 : 0), above[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names,
                              const Nearness& nearness) {
  std::string_view nearest;
  size_t least = std::min(nearness.most, name.size() / nearness.written) + 1;
  for (const std::string_view known : names) {
    const auto [shorter, longer] = std::minmax(name.size(), known.size());
    if (longer - shorter >= least) continue;  // so many letters at least are missing
    const size_t letters = distance(name, known);
    if (letters >= least || letters * nearness.known > known.size()) continue;
    least = letters;
    nearest = known;
  }
  return nearest;
}

}  // namespace neuron::base
