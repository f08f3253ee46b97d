// SPDX-License-Identifier: Apache-2.0
//
// What a check found: where, what, and what to do; and the lines by which a worker tells it.
//
// Callers: the checks, the workers (processes of this program, one for each part of a device), the
// reports. Values, any thread. Fails: from_line() is false for a line that is none of a worker.
#ifndef TOOLS_DEVICE_CHECKS_FINDING_H
#define TOOLS_DEVICE_CHECKS_FINDING_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::checks {

enum class Verdict { kPass, kWarn, kFail, kSkip };
enum class Action { kNone, kDriverReload, kReboot, kResetDevice, kReplaceInstance };
// Of an error of HBM: whether a reset repairs it. Not everybody who meets one can tell.
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

// One line of a worker: what it begins, what it found, how long a program took, or its end.
struct Line {
  enum class Kind { kStep, kFinding, kTiming, kEnd } kind = Kind::kEnd;
  Finding finding;  // of a step: where it is, and in `found` what is begun
  Timing timing;
};
std::string to_line(const Line& line);
bool from_line(std::string_view text, Line& line);

// Engine, ring and address that a sentence of the runtime or the driver names.
void place_from_sentence(std::string_view sentence, Finding& finding);
// What operators do about a status of libnrt (nrt_status.h).
Action action_of_status(int status);
// The same of a sentence that names the device's fault ("failed ... with DMA_ENGINE at"), of a
// process whose status is not known; a sentence that names none changes nothing.
void advise_from_sentence(std::string_view sentence, Finding& finding);
// One advice for all errors of HBM that one device has now: what can tell whether a reset repairs
// them speaks for those that cannot; if nobody can, a reset is the milder attempt.
void agree_on_repair(Findings& findings);
// Errors of HBM that were counted before the check, by a counter that cannot tell whether a reset
// has repaired them since: what all of the memory says, if the check has tried it. One that it
// found good has no more than a history.
void judge_past_errors(Findings& findings);

}  // namespace neuron::checks

#endif
