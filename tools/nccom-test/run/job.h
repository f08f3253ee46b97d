// SPDX-License-Identifier: Apache-2.0
// The plan of a run: phases run one after another, the blocks of a phase at the same time.
// Every rank makes the same job from the same options. Callers: ranks, the collector, tests.
// Thread-safe: values. Fails with a sentence for options that do not fit together.
#ifndef TOOLS_NCCOM_TEST_RUN_JOB_H
#define TOOLS_NCCOM_TEST_RUN_JOB_H

#include <string>
#include <vector>

#include "tools/nccom-test/input/options.h"

namespace neuron::nccom {

struct PhaseBlock {
  BlockOptions options;
  GroupConfig groups;  // at least one; all of the same size
  PairConfig pairs;    // in ranks of the group
  std::vector<uint64_t> sizes;
  std::string title;
  uint32_t stream = 0;
};

struct Phase {
  std::vector<PhaseBlock> blocks;
  bool of_heat_map = false;

  size_t steps() const;  // of the longest sweep; a shorter one repeats its last size
  size_t step_of(size_t block, size_t step) const;  // index in sizes
};

struct Job {
  std::vector<Phase> phases;
  uint32_t runs_before = 0;  // whole runs that are not measured
  uint32_t runs = 1;
  uint32_t operations_before = 0;  // of each run
  uint32_t operations = 1;
};

ccom::Result<Job> make_job(const Options& options);

// "measured operation 7 of 20, run 2 of 3", of the operations of a step counted from 0.
std::string iteration_name(const Job& job, size_t iteration);

// Group and place of a rank in a block; false: it does not take part.
bool place_in(const GroupConfig& groups, uint32_t rank, uint32_t& group, uint32_t& place);

}  // namespace neuron::nccom

#endif
