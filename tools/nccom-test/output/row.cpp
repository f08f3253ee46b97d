// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/output/row.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

double average(std::vector<double> values) {
  if (values.empty()) return 0;
  // Ranks report in any order, which must not change the last digit.
  std::sort(values.begin(), values.end());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - std::floor(at));
}

double algorithm_rate(const Row& row) {
  const double time = average(row.times_us);
  return time > 0 ? static_cast<double>(row.size) / (time * 1e-6) : 0;
}

double bus_rate(const Block& block, const Row& row) {
  return algorithm_rate(row) * bus_factor(block.operation, block.group_ranks);
}

double average_bus_rate(const Block& block) {
  std::vector<double> rates;
  for (const Row& row : block.rows) {
    if (row.failure.empty()) rates.push_back(bus_rate(block, row));
  }
  return average(rates);
}

uint64_t failures(const std::vector<Block>& blocks) {
  uint64_t count = 0;
  for (const Block& block : blocks) {
    for (const Row& row : block.rows) count += row.failure.empty() ? 0 : 1;
  }
  return count;
}

}  // namespace neuron::nccom
