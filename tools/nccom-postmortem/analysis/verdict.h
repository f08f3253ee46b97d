// SPDX-License-Identifier: Apache-2.0
//
// Finds the one root cause behind the dumps of a job.
//
// Concepts: causes are tried in this order. Ranks called different operations: the first operation
// of a stream in which two ranks differ. A rank died: the operation in which the others waited for
// it. Ranks wait: the waits are followed to a rank that waits for none or wrote no dump, or to a
// cycle of ranks that all wrote one. A rank aborted: which, and why, unless the survivors waited
// for one that wrote no dump. Otherwise nothing is wrong, or the dumps do not show it. Callers:
// main(), tests. Thread-safe: values. Cannot fail.
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
  std::vector<uint32_t> silent;  // ranks without any record
};

Verdict judge(const Evidence& evidence);
const char* name_of(Cause cause);
std::string text_of(const Verdict& verdict, const Evidence& evidence);
std::string json_of(const Verdict& verdict, const Evidence& evidence);

}  // namespace neuron::tools

#endif
