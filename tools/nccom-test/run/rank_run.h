// SPDX-License-Identifier: Apache-2.0
// Takes one rank through a job: every step is prepared, measured, and checked if asked for.
// Callers: a thread for each rank. Tells a sink everything; never throws. Thread-safe: ranks share
// nothing but the sink.
#ifndef TOOLS_NCCOM_TEST_RUN_RANK_RUN_H
#define TOOLS_NCCOM_TEST_RUN_RANK_RUN_H

#include <functional>

#include "tools/nccom-test/run/message.h"
#include "tools/nccom-test/run/participant.h"

namespace neuron::nccom {

using Sink = std::function<void(const Message&)>;

struct RankSettings {
  Check check = Check::kNone;
  uint64_t seed = 0;
  std::string dump_folder = ".";
};

// Ends with kEnd or kBroken.
void run_rank(Participant& participant, const Job& job, const RankSettings& settings,
              const Sink& sink);

// What `rank` does in a step.
ccom::Result<std::vector<BlockCase>> cases_of(const Phase& phase, size_t step, uint32_t rank);

}  // namespace neuron::nccom

#endif
