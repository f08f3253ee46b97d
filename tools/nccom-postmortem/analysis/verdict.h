// SPDX-License-Identifier: Apache-2.0
//
// The one cause behind what the dumps of a job show.
//
// Concepts: in this order. Ranks called different things: the first operation of a stream where two
// differ. A rank died: what the others waited for it in. Ranks wait: who waits for whom is followed
// to the rank that waits for nobody, or to a circle. Somebody aborted: who, and why. Otherwise
// nothing is wrong, or the dumps do not show it. Callers: main(), tests. Thread-safe: values.
// Cannot fail.
#ifndef TOOLS_NCCOM_POSTMORTEM_ANALYSIS_VERDICT_H
#define TOOLS_NCCOM_POSTMORTEM_ANALYSIS_VERDICT_H

#include <optional>
#include <string>
#include <vector>

#include "tools/nccom-postmortem/analysis/evidence.h"

namespace neuron::tools {

enum class Cause {
  kNone,
  kMismatch,
  kDeadRank,
  kMissingRank,
  kStuckRank,
  kCircle,
  kAborted,
  kUnknown
};

struct Verdict {
  Cause cause = Cause::kNone;
  std::string sentence;
  std::vector<uint32_t> culprits;
  std::vector<uint32_t> waiting;  // ranks that wait for them
  std::optional<Operation> operation;
  std::vector<uint32_t> silent;  // ranks of which nothing is known
};

Verdict judge(const Evidence& evidence);
const char* name_of(Cause cause);
std::string text_of(const Verdict& verdict, const Evidence& evidence);
std::string json_of(const Verdict& verdict, const Evidence& evidence);

}  // namespace neuron::tools

#endif
