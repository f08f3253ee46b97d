// SPDX-License-Identifier: Apache-2.0
//
// The chain of instructions, semaphores and transfers that the end of an execution depended on.
//
// Concept: the path is walked backwards from the last instruction. What ran immediately before is
// what a step was waiting for: the semaphore that held last, and whoever changed it; the transfer
// that completed; or, without a wait, the instruction before it on the same engine. The path goes
// on through the CC cores of collectives: from the end of one over its transfers, and its waits for
// other ranks, to the instruction that began it. What another rank did meanwhile is in the profile
// of that rank. Each picosecond
// of the execution belongs to one step, so the shares add up to the whole. Callers: reports.
// Thread-safe: pure. Cannot fail: where an event is missing, the path ends there, and the time
// before it is `unexplained`.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_CRITICAL_PATH_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_CRITICAL_PATH_H

#include <string>
#include <vector>

#include "tools/neuron-profile/analysis/collectives.h"
#include "tools/neuron-profile/analysis/timeline.h"

namespace neuron::profile {

enum class StepKind : uint8_t {
  kInstruction,  // an engine computes
  kIssue,        // an engine executes control instructions, or fetches
  kTransfer,     // a DMA engine moves bytes
  kDmaStart,     // from the doorbell to the first byte
  kSemaphore,    // an update is on its way
  kSetup,        // the runtime's own instructions, around the program
  kOutside,      // another core or the host ended a wait, or a CC core without events
  kCollective,   // a CC core executes instructions
  kPeer,         // a CC core waits for another rank
};
inline constexpr size_t kStepKinds = 9;
const char* step_name(StepKind kind);

inline constexpr uint32_t kNoPeer = UINT32_MAX;

struct Step {
  StepKind kind = StepKind::kInstruction;
  uint8_t engine = 0;  // of the instruction; of a transfer, the DMA engine
  uint8_t queue = 0;
  uint32_t pc = 0;  // of the instruction; of a transfer, what triggered it
  uint32_t debug = 0;
  uint16_t opcode = 0;
  uint8_t trigger = 0;         // of a transfer: the engine of that instruction
  uint8_t stream = kNoStream;  // of what a CC core does: its number, and `pc` is one of its program
  uint32_t peer = kNoPeer;     // the rank that is waited for, or that a transfer is for
  bool arrival = false;  // of a wait for a rank: for its data, of so many bytes; else for room
  uint32_t cell = kNoCell;
  uint64_t begin = 0, end = 0;
  uint64_t bytes = 0, descriptors = 0;
  uint64_t time() const { return end - begin; }
};

struct CriticalPath {
  std::vector<Step> steps;  // from the beginning to the end
  uint64_t total = 0;
  uint64_t unexplained = 0;
  std::array<uint64_t, kStepKinds> by_kind{};
  std::array<uint64_t, NEURON_CORE_ENGINES> by_engine{};  // of kInstruction
};

CriticalPath critical_path(const Timeline& timeline, const Program& program,
                           const Collectives& collectives, uint64_t total);

}  // namespace neuron::profile

#endif
