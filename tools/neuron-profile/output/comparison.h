// SPDX-License-Identifier: Apache-2.0
//
// Two profiles beside each other: metrics, parts of the critical path and instructions that have
// changed. Callers: neuron-profile. Fails as the profiles do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_COMPARISON_H
#define TOOLS_NEURON_PROFILE_OUTPUT_COMPARISON_H

#include "tools/neuron-profile/analysis/analysis.h"

namespace neuron::profile {

struct Comparison {
  double total_change = 0;  // of total_time, as a fraction of that of the first profile
  std::string text;
  std::string json;
};

// One execution of each.
Result<Comparison> compare(Profile& before, size_t execution_before, Profile& after,
                           size_t execution_after);

}  // namespace neuron::profile

#endif
