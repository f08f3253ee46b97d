// SPDX-License-Identifier: Apache-2.0
//
// The events of one execution in memory, in the order of their times, for what has to look from one
// to another: the critical path, the picture.
// Callers: views. Thread-safe: values. Fails as the profile does. An execution with more than
// kMostEvents keeps its last ones, and says so.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_TIMELINE_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_TIMELINE_H

#include <array>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

inline constexpr unsigned kDmaEngines = 16;

struct Timeline {
  static constexpr size_t kMostEvents = 4u << 20;

  std::array<std::vector<InstructionEvent>, NEURON_CORE_ENGINES> instructions;  // in program order
  std::array<std::vector<TransferEvent>, kDmaEngines> transfers;                // by end
  std::unordered_map<uint32_t, std::vector<UpdateEvent>> updates;    // of a cell, by time
  std::array<std::vector<StreamEvent>, ntff::kMostStreams> streams;  // of CC cores, in their order
  bool whole = true;

  static Result<Timeline> read(Profile& profile, uint32_t part, size_t execution,
                               size_t most = kMostEvents);
};

}  // namespace neuron::profile

#endif
