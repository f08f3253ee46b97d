// SPDX-License-Identifier: Apache-2.0
//
// The merged flight records of a job's ranks. For each rank: its newest operations, from its own
// dump or as seen by a rank of its host, and how it ended.
//
// Callers: verdict, main(). Thread-safe: values. Fails: CCOM_INVALID with the file, the field, and
// what is wrong with it. Files count as hostile.
#ifndef TOOLS_NCCOM_POSTMORTEM_ANALYSIS_EVIDENCE_H
#define TOOLS_NCCOM_POSTMORTEM_ANALYSIS_EVIDENCE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::tools {

struct Operation {
  std::string name;  // all_reduce
  uint64_t number = 0;
  uint32_t stream = 0;
  std::string type, reduction, algorithm, detail;
  uint64_t count = 0;
  uint32_t root = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t bytes = 0, steps = 0;
  std::string status;
  uint32_t waiting_for = 0;

  bool under_way() const { return end_ns == 0; }
  bool good() const { return status == "CCOM_SUCCESS"; }
  // Compares the properties that all ranks must agree on.
  bool same_call(const Operation& other) const;
};

struct RankEvidence {
  uint32_t rank = 0;
  std::string host;
  int64_t process = 0;
  bool dumped = false;  // it wrote a dump itself
  bool known = false;   // its operations are
  bool dead = false;    // some rank says so
  uint64_t begun = 0;
  uint64_t time_ns = 0;  // of its dump
  std::string status, sentence;
  std::vector<Operation> operations;  // oldest first
};

struct Evidence {
  std::map<uint32_t, RankEvidence> ranks;  // every rank of the job
  uint32_t size = 0;
};

// Adds one dump; `name` is for sentences.
runtime::Result<void> add_dump(Evidence& evidence, const std::string& text,
                               const std::string& name);

std::string describe(const RankEvidence& rank);    // "rank 5 (host b, pid 12)"
std::string describe(const Operation& operation);  // "all_reduce 4711 of stream 0"
std::string call_of(const Operation& operation);   // with type, count, root
std::string time_text(uint64_t time_ns);           // UTC, to the microsecond

}  // namespace neuron::tools

#endif
