// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-packager for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_PACKAGER_MANUAL_H
#define TOOLS_NEURON_PACKAGER_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::packager {

inline tools::Manual manual() {
  return {
      .name = "neuron-packager",
      .summary = "show, unpack, make and optimize NEFF files",
      .description =
          R"(info :: The header, inputs and outputs with shapes and types, and whether the
program runs here; of any NEFF, whoever made it. `--format csv` and `ndjson` list the inputs and
outputs alone, one a line.

unpack :: Writes the members into a directory. Nothing outside it is touched; existing files are
replaced with `-f` only.

create :: Makes a NEFF of a directory of members, or puts a header in front of a tar or tar.gz of
them. Contents in the open format have the feature open-program anyway.

optimize :: All constants of a subgraph in one file, no debug information, not compressed. The
program computes the same and loads faster.)",
      .exit_statuses = {tools::kDoneStatus,
                        {1,
                         "the file or directory is at fault; one sentence on standard error, and "
                         "no half file is left"},
                        tools::kUsageStatus},
      .examples = {{"neuron-packager info --format json model.neff", "the header for programs"},
                   {"neuron-packager unpack -C model model.neff", "its members as files"},
                   {"neuron-packager create -o again.neff model", "and back"}},
      .see_also = {"neuron-as(1)"}};
}

}  // namespace neuron::packager

#endif
