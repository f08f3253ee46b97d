// SPDX-License-Identifier: Apache-2.0
// Shows which links are slow or busy: the bandwidth between every two ranks of a real run, or the
// load of every link of a simulated one. Callers: main, tests. Thread-safe: functions of their
// arguments. Cannot fail.
#ifndef TOOLS_NCCOM_TEST_OUTPUT_HEAT_MAP_H
#define TOOLS_NCCOM_TEST_OUTPUT_HEAT_MAP_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::nccom {

struct LinkLoad {
  std::string name;
  uint64_t bytes = 0;
  double busy = 0;  // share of the time
};

// A link below this share of the median is called slow.
inline constexpr double kSlowShare = 0.5;

struct PairLink {
  uint32_t from = 0, to = 0;
  double bytes_per_second = 0;
  double time_us = 0;
  bool slow = false;
};

// `times_us`: [source][target] in microseconds; 0: not measured.
std::vector<PairLink> pair_links(const std::vector<std::vector<double>>& times_us, uint64_t bytes);

std::string format_pairs(const std::vector<PairLink>& links, uint32_t ranks, uint64_t bytes,
                         bool gibibytes);
std::string pairs_json(const std::vector<PairLink>& links, uint64_t bytes);

// The busiest first, at most `most` of them.
std::string format_loads(std::vector<LinkLoad> loads, size_t most);
std::string loads_json(std::vector<LinkLoad> loads);

}  // namespace neuron::nccom

#endif
