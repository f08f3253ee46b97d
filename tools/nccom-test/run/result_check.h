// SPDX-License-Identifier: Apache-2.0
// Compares the result of every operation of a step, on one rank, with what the host computes.
//
// Concepts: inputs are a function of the seed (data.h), so that every rank knows what it must
// receive. The first result is compared element by element, and so is the last one; a result
// between them whose digest is that of a right result is equal to it, and any other is compared
// element by element, too. Before an operation runs again, its output is overwritten, or its input
// changes, so that no earlier result can be taken for its own. All this happens outside of measured
// times. A mismatch does not end the step: the other ranks go on, and so must this one.
// Callers: rank_run, in the rank's thread. Owns: inputs and digests. Borrows: participant, cases,
// job. Fails: as the participant does; a wrong result is no failure but a mismatch().
#ifndef TOOLS_NCCOM_TEST_RUN_RESULT_CHECK_H
#define TOOLS_NCCOM_TEST_RUN_RESULT_CHECK_H

#include <cstdint>
#include <string>
#include <vector>

#include "tools/nccom-test/run/data.h"
#include "tools/nccom-test/run/job.h"
#include "tools/nccom-test/run/participant.h"

namespace neuron::nccom {

class ResultCheck {
 public:
  struct Settings {
    uint64_t seed = 0;
    bool ones = false;        // all inputs are 1
    std::string dump_folder;  // for the buffers of the first mismatch
  };

  ResultCheck(Participant& participant, const std::vector<BlockCase>& cases, const Job& job,
              Settings settings);

  // Writes the inputs of all sets of buffers.
  ccom::Result<void> begin();
  // Compares the results of the iterations `first` to `last`, which have different sets. `at_end`:
  // no iteration follows; the last result is compared element by element.
  ccom::Result<void> look(size_t first, size_t last, bool at_end);

  uint64_t compared(size_t block) const { return blocks_[block].compared; }
  // A sentence about the first wrong result of the block, with the number of the others; empty: all
  // were right.
  std::string mismatch(size_t block) const;

 private:
  struct WorkState {
    std::vector<std::vector<std::byte>> inputs;  // those that iterations take in turn
    std::vector<std::vector<size_t>> digests;    // of right results, by input
  };
  struct BlockState {
    std::vector<WorkState> works;
    uint64_t compared = 0;
    uint64_t wrong = 0;
    std::string sentence;  // about the first wrong one
    std::string files;     // where its buffers are
  };

  uint32_t turn_of(size_t iteration) const;
  Data data_of(const Work& work, uint32_t turn) const;
  ccom::Result<void> look_at(const Slot& slot, size_t iteration, bool whole);
  void note(const Slot& slot, size_t iteration, const Mismatch& wrong,
            std::span<const std::byte> output);
  std::string dump(const Slot& slot, uint32_t turn, std::span<const std::byte> output) const;

  Participant& participant_;
  const std::vector<BlockCase>& cases_;
  const Job& job_;
  const Settings settings_;
  std::vector<BlockState> blocks_;
};

}  // namespace neuron::nccom

#endif
