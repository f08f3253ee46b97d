// SPDX-License-Identifier: Apache-2.0
#include <nrt/nrt.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "ccom/plan/planner.h"
#include "tests/system/matrix/grid.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/device_participant.h"

namespace neuron::matrix {

namespace {

using nccom::Participant;
using Participants = std::vector<std::unique_ptr<Participant>>;

// Loading and executing cost more than a collective of a few bytes: so many share a program.
constexpr size_t kCellsOfProgram = 48;

bool moves(const Cell& cell) { return cell.elements != 0 || cell.operation == CCOM_BARRIER; }

// Which algorithms are refused is the planner's to say, of the device as of the simulator; here it
// only keeps those that may be refused in programs of their own, whose loading then tells.
bool may_be_refused(const Cell& cell) {
  Cell simulated = cell;
  simulated.executor = Executor::kSimulatedNode;
  return run_cells({simulated}).begin()->second.kind != Verdict::Kind::kResult;
}

void for_each_rank(const Participants& participants,
                   const std::function<void(Participant&)>& work) {
  std::vector<std::thread> threads;
  for (const auto& participant : participants) {
    threads.emplace_back([&] { work(*participant); });
  }
  for (std::thread& thread : threads) thread.join();
}

// One rank's part of a program that holds all `cells`, one after the other.
ccom::Result<std::vector<Outcome>> run_program(Participant& participant,
                                               const std::vector<Cell>& cells) {
  const uint32_t rank = participant.rank();
  std::vector<nccom::BlockCase> blocks(1);
  nccom::BlockCase& block = blocks.front();
  block.takes_part = true;
  block.place = rank;
  block.ranks.resize(cells.front().ranks);
  std::iota(block.ranks.begin(), block.ranks.end(), 0u);
  for (const Cell& cell : cells) block.what.works.push_back(work_of(cell, rank));
  nccom::Phase phase;
  phase.blocks.resize(1);
  phase.blocks.front().groups = {block.ranks};
  NEURON_CHECK(participant.enter(phase));
  const auto prepared = participant.prepare(blocks);
  if (!prepared) {
    static_cast<void>(participant.enter(phase));  // lets go of what it has
    return prepared.error();
  }
  const auto& works = block.what.works;
  for (size_t i = 0; i < works.size(); ++i) {
    NEURON_CHECK(participant.write({0, i}, input_of(works[i], rank)));
  }
  std::vector<double> times(1);
  NEURON_CHECK(participant.execute(0, times));
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < works.size(); ++i) {
    NEURON_TRY(output, participant.result({0, i}));
    outcomes.push_back(outcome_of(works[i], rank, output));
    if (times[0] <= 0) {
      outcomes.back().verdict = {Verdict::Kind::kWrong, "the program took no time"};
    }
  }
  NEURON_CHECK(participant.enter(phase));
  return outcomes;
}

void run_together(const Participants& participants, const std::vector<Cell>& cells,
                  std::map<std::string, Verdict>& verdicts) {
  std::vector<std::vector<Outcome>> outcomes(participants.size());
  bool refused = false;
  for_each_rank(participants, [&](Participant& participant) {
    const auto done = run_program(participant, cells);
    outcomes[participant.rank()] =
        done ? *done
             : std::vector<Outcome>(cells.size(),
                                    {verdict_of(done.error().status, done.error().sentence)});
  });
  for (const auto& of_rank : outcomes) {
    refused = refused || of_rank.front().verdict.kind == Verdict::Kind::kRefusal;
  }
  if (refused && cells.size() > 1) {
    for (const Cell& cell : cells) run_together(participants, {cell}, verdicts);
    return;
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    verdicts[cells[i].name()] = together(cells[i], outcomes, i);
  }
}

}  // namespace

std::map<std::string, Verdict> run_on_device(const std::vector<Cell>& cells) {
  setenv("NEURON_EMULATOR", "trn1.32xlarge", 1);
  setenv("NEURON_RT_LOG_LEVEL", "QUIET", 0);  // refusals are checked, not read
  std::map<std::string, Verdict> verdicts;
  const uint32_t ranks = cells.front().ranks;
  nccom::DeviceBuffers buffers;
  buffers.place = cells.front().executor == Executor::kDeviceSbuf ? nccom::BufferPlace::kSbuf
                                                                  : nccom::BufferPlace::kMemory;
  auto participants = nccom::make_device_participants(0, ranks, ranks, ranks, "", 1, buffers);
  if (!participants) {
    verdicts[cells.front().name()] = {Verdict::Kind::kWrong, participants.error().sentence};
    return verdicts;
  }
  // A rank that does not join is missed by the first program, which says so.
  for_each_rank(*participants,
                [](Participant& participant) { static_cast<void>(participant.join()); });
  std::vector<Cell> program;
  const auto run = [&] {
    if (!program.empty()) run_together(*participants, program, verdicts);
    program.clear();
  };
  for (const Cell& cell : cells) {
    if (!moves(cell)) {
      verdicts[cell.name()] = {Verdict::Kind::kNothing, ""};
    } else if (may_be_refused(cell)) {
      run_together(*participants, {cell}, verdicts);
    } else {
      program.push_back(cell);
      if (program.size() == kCellsOfProgram) run();
    }
  }
  run();
  participants->clear();
  nrt_close();
  return verdicts;
}

}  // namespace neuron::matrix
