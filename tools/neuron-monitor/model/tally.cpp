// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/model/tally.h"

#include <algorithm>
#include <cmath>

namespace neuron::monitor {

Tally tally(const telemetry::CoreCounters& of) {
  return {{of.generic, of.numerical, of.transient, of.model, of.runtime, of.hardware},
          {of.completed, of.completed_with_err, of.completed_with_num_err, of.timed_out,
           of.incorrect_input, of.failed_to_queue}};
}

Tally& operator+=(Tally& to, const Tally& more) {
  for (size_t i = 0; i < to.errors.size(); ++i) to.errors[i] += more.errors[i];
  for (size_t i = 0; i < to.ends.size(); ++i) to.ends[i] += more.ends[i];
  return to;
}

std::optional<Latencies> percentiles(const telemetry::LatencyHistogram& histogram) {
  uint64_t count = 0;
  for (const uint64_t bucket : histogram) count += bucket;
  if (count == 0) return std::nullopt;
  // Bucket i ends at 2^(i/4) microseconds; the first begins at 0.
  const auto bound = [](size_t i) { return std::exp2(static_cast<double>(i) / 4) * 1e-6; };
  Latencies out{};
  uint64_t below = 0;
  size_t wanted = 0;
  for (size_t i = 0; i < histogram.size(); ++i) {
    if (histogram[i] == 0) continue;
    const double low = i == 0 ? 0 : bound(i - 1), high = bound(i);
    const double end = static_cast<double>(below + histogram[i]);
    while (wanted < kPercentiles.size()) {
      const double rank = kPercentiles[wanted] / 100.0 * static_cast<double>(count);
      if (rank > end) break;
      const double into = (rank - static_cast<double>(below)) / static_cast<double>(histogram[i]);
      out[wanted++] = low + (high - low) * std::clamp(into, 0.0, 1.0);
    }
    below += histogram[i];
  }
  return out;
}

}  // namespace neuron::monitor
