// SPDX-License-Identifier: Apache-2.0
//
// The result of a check: where, what, and what to do; and the lines in which a worker reports it.
//
// Callers: the checks, the workers (processes of this program, one for each part of a device), the
// reports. Values, any thread. Fails: from_line() is false for a line that is not a worker's.
#ifndef TOOLS_DEVICE_CHECKS_FINDING_H
#define TOOLS_DEVICE_CHECKS_FINDING_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::checks {

enum class Verdict { kPass, kWarn, kFail, kSkip };
enum class Action { kNone, kDriverReload, kReboot, kResetDevice, kReplaceInstance };
// Whether a reset repairs an error of HBM. Not every check that meets an error can tell.
enum class Repair { kNone, kUnknown, kPossible, kImpossible };
const char* name(Verdict verdict);
const char* name(Action action);

struct Finding {
  std::string check;  // "memory.pattern"; scripts select by it
  Verdict verdict = Verdict::kPass;
  int device = -1, core = -1;  // the core within its device; -1: of none
  std::string engine;          // "DVE", "DMA 32", "HBM 1", "SRAM"
  std::string ring;            // "queue 3 index 17"
  std::string address;         // "0x400000"
  std::string found, expected;
  Action action = Action::kNone;
  Repair repair = Repair::kNone;
};
using Findings = std::vector<Finding>;

// The program's time on the device's clock.
struct Timing {
  std::string program;
  uint64_t device_ps = 0;
};

// One line of a worker: a step that begins, a finding, the time of a program, or the worker's end.
struct Line {
  enum class Kind { kStep, kFinding, kTiming, kEnd } kind = Kind::kEnd;
  Finding finding;  // of a step: where it is, and in `found` what is begun
  Timing timing;
};
std::string to_line(const Line& line);
bool from_line(std::string_view text, Line& line);

// Engine, ring and address that a sentence of the runtime or the driver names.
void place_from_sentence(std::string_view sentence, Finding& finding);
// The action for operators that a status of libnrt (nrt_status.h) calls for.
Action action_of_status(int status);
// Takes the action from a sentence that names the device's fault ("failed ... with DMA_ENGINE at"),
// for a process whose status is not known. A sentence that names no fault changes nothing.
void advise_from_sentence(std::string_view sentence, Finding& finding);
// Gives all present HBM errors of one device the same advice. A finding that knows whether a reset
// repairs them decides for those that do not; if none knows, the advice is a reset, the milder
// attempt.
void agree_on_repair(Findings& findings);
// Judges HBM errors from before the check, whose counter cannot tell whether a reset has since
// repaired them. If the check tested all of a memory, its result decides: errors of a memory found
// good are only history.
void judge_past_errors(Findings& findings);

}  // namespace neuron::checks

#endif
