// SPDX-License-Identifier: Apache-2.0
//
// Samples and their percentiles. Callers: programs that measure. Values. Cannot fail; no samples
// give 0.
#ifndef TOOLS_EXECUTION_STATISTICS_H
#define TOOLS_EXECUTION_STATISTICS_H

#include <algorithm>
#include <cmath>
#include <vector>

namespace neuron::execution {

// The smallest sample that `share` of all do not exceed (0 to 1).
inline double percentile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double rank = std::ceil(share * static_cast<double>(samples.size()));
  const size_t at = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return samples[std::min(at, samples.size() - 1)];
}

}  // namespace neuron::execution

#endif
