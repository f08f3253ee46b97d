// SPDX-License-Identifier: Apache-2.0
//
// What limits an execution, in sentences, with the numbers behind them.
// Callers: the report and the page. Thread-safe: pure. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_FINDINGS_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_FINDINGS_H

#include <string>
#include <vector>

#include "tools/neuron-profile/analysis/critical_path.h"
#include "tools/neuron-profile/analysis/summary.h"

namespace neuron::profile {

struct Finding {
  std::string subject;   // "small-descriptors": for programs
  std::string sentence;  // what is found, with its numbers
  std::string advice;    // what to do; may be empty
  uint64_t saving = 0;   // ps that the execution gets shorter at most; 0: not known
};

// A place in the source, or an instruction where there is no source, and its part of the path.
struct CostlyPlace {
  std::string where;  // "attention.py:40", or "Vector pc 12"
  std::string what;   // the instruction that costs most there
  uint64_t on_path = 0;
  uint64_t active = 0;  // of its engine, over the whole execution
  uint64_t count = 0;
  std::string advice;
};

struct Findings {
  std::string bottleneck;         // one sentence
  std::vector<Finding> findings;  // the weightiest first
  std::vector<CostlyPlace> places;
};

Findings find_bottlenecks(const Program& program, const Summary& summary, const Timeline& timeline,
                          const CriticalPath& path);

// "12.3 us"; "61.2 %".
std::string time_text(uint64_t ps);
std::string share_text(uint64_t part, uint64_t whole);
std::string bytes_text(uint64_t bytes);

}  // namespace neuron::profile

#endif
