// SPDX-License-Identifier: Apache-2.0
//
// Totals of one execution: by engine, by instruction, by queue. Made in one pass over the events,
// in memory that depends on the program and not on how long it ran. Callers: every view of a
// profile. Thread-safe: values. Cannot fail. Times are picoseconds.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_SUMMARY_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_SUMMARY_H

#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/neuron-profile/analysis/busy_time.h"
#include "tools/neuron-profile/analysis/collectives.h"
#include "tools/neuron-profile/analysis/covered_time.h"
#include "tools/neuron-profile/analysis/machine.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// Set-up instructions, which readers of profiles leave out of the time that a program takes.
bool is_setup_opcode(unsigned opcode);

struct Totals {
  uint64_t count = 0;
  uint64_t time = 0;    // each instruction from its beginning to its result
  uint64_t active = 0;  // what it adds to the time in which its engine does something
  uint64_t wait = 0;    // in front of it; waits of the runtime's own instructions do not count
};

struct EngineTotals : Totals {
  std::map<uint32_t, uint64_t> wait_by_cell;
};

struct InstructionTotals : Totals {
  uint32_t debug = 0;
  uint16_t opcode = 0;
};

struct QueueTotals {
  uint64_t transfers = 0, descriptors = 0, bytes = 0;
  uint64_t time = 0;                               // of all DMA engines
  uint64_t active = 0;                             // in which at least one moves something
  uint64_t small_descriptors = 0, small_time = 0;  // of transfers with small descriptors
};

struct Summary {
  uint64_t total = 0;   // doorbell to completion
  uint64_t first = 0;   // the program's first instruction begins
  uint64_t last = 0;    // its last one ends
  uint64_t active = 0;  // in which an engine or a DMA engine does something
  uint64_t dma_active = 0;
  uint64_t dma_time = 0;
  uint64_t hbm_read = 0, hbm_write = 0;
  uint64_t sbuf_read = 0, sbuf_write = 0;  // by DMA
  uint64_t multiply_accumulates = 0;
  uint64_t transposed = 0;  // multiplications that only move elements
  uint64_t events = 0;
  uint64_t updates = 0;
  uint64_t lost = 0;  // in gaps of this execution
  std::array<EngineTotals, NEURON_CORE_ENGINES> engines;
  std::map<std::pair<unsigned, unsigned>, Totals> opcodes;  // engine, opcode
  std::array<std::unordered_map<uint32_t, InstructionTotals>, NEURON_CORE_ENGINES> instructions;
  std::map<unsigned, QueueTotals> queues;
  Collectives collectives;
  QueueTotals all_queues() const;
  uint64_t hbm_bytes() const { return hbm_read + hbm_write; }
};

Result<Summary> summarize(Profile& profile, uint32_t part, size_t execution);

// The program's instructions that took time, those first that took most of their engine's.
struct InstructionRow {
  unsigned engine = 0;
  uint32_t pc = 0;
  const InstructionTotals* totals = nullptr;  // of the summary
};
std::vector<InstructionRow> instructions_by_time(const Program& program, const Summary& summary);

// Metrics by the names of the original's summary; those that need what no emulated device has are
// left out. Seconds, bytes, fractions of 1.
struct Metric {
  std::string name;
  double value = 0;
  bool whole = false;  // a count
};
std::vector<Metric> metrics_of(const Profile& profile, uint32_t part, const Summary& summary);

// The execution that is shown unless one is asked for: the last one that succeeded, or the last.
// Nothing if there is none.
std::optional<size_t> representative(const Part& part);

}  // namespace neuron::profile

#endif
