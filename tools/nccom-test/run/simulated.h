// SPDX-License-Identifier: Apache-2.0
// The rows of a job in model time, on a system that need not exist, and the load of its links.
// Callers: main. Threads: one; nothing is kept. Fails with the planner's or simulator's sentence
// for the whole run; if only one size fails, its row is a failure.
#ifndef TOOLS_NCCOM_TEST_RUN_SIMULATED_H
#define TOOLS_NCCOM_TEST_RUN_SIMULATED_H

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tools/nccom-test/input/options.h"
#include "tools/nccom-test/output/heat_map.h"
#include "tools/nccom-test/output/row.h"
#include "tools/nccom-test/run/job.h"

namespace neuron::nccom {

struct SimulatedRun {
  std::vector<Block> blocks;
  std::vector<LinkLoad> loads;  // of the last row, where a heat map is wanted
  std::set<std::string> notes;  // what the rows do not show
  std::string model = "links";  // what the times contain
  std::string system;           // "trn1.32xlarge x 4: 64 chips, 128 ranks"
};

// Is told now and then how far the run has come, in words. May be empty.
using ShowProgress = std::function<void(const std::string&)>;

// Memory: --memory is the most that a simulation may take. An algorithm that somebody named is
// refused at once if it is estimated to need more; an automatic choice leaves it out.
ccom::Result<SimulatedRun> run_simulated(const Options& options, const Job& job, uint64_t seed,
                                         const ShowProgress& show = {});

}  // namespace neuron::nccom

#endif
