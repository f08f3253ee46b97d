// SPDX-License-Identifier: Apache-2.0
//
// The texts of nccom-postmortem for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NCCOM_POSTMORTEM_MANUAL_H
#define TOOLS_NCCOM_POSTMORTEM_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::tools {

inline Manual postmortem_manual() {
  return {
      .name = "nccom-postmortem",
      .summary = "find the root cause of a collective that failed",
      .description = R"(Every rank of a communicator keeps its last 1,000 operations in a flight
recorder, which it writes as JSON when an operation fails and `CCOM_DUMP_PATH` is set, or when the
program calls ccom_dump. A dump also holds the newest operations of the other ranks of its host, so
that a rank that was killed is not missed.

The dumps of one job are merged, in any order and number, and one root cause is printed: ranks
that called different things (both calls), a rank that died (how, and what it did last), a rank that
never began what the others wait in, a rank that stopped in an operation, ranks that wait for one
another in a circle, or a rank that aborted. A rank that others wait for and that wrote no dump
stands still or is cut off, if its dump is not just missing among the files: give all of them. A
line for each rank follows.

With `--format json` (or `--json`) one object instead: cause, sentence, ranks, culprits, waiting and
silent (lists of rank, host and process) and operation (name, number and stream). `ndjson` and `csv`
have a line for each rank that is to blame, waits, or is silent.)",
      .exit_statuses = {{0, "nothing failed"},
                        {1, "a file is no dump, or cannot be read"},
                        kUsageStatus,
                        {3, "a root cause was found"},
                        {4, "ranks failed, but the dumps do not show why"}},
      .environment = {{"CCOM_DUMP_PATH", "of the job: folder for dumps, made if it is missing"}},
      .examples = {{"CCOM_DUMP_PATH=/var/tmp/dumps my-job", "leave dumps behind"},
                   {"nccom-postmortem /var/tmp/dumps/ccom-*.json", "and read them"}},
      .see_also = {"nccom-test(1)"}};
}

}  // namespace neuron::tools

#endif
