// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-dump for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_DUMP_MANUAL_H
#define TOOLS_NEURON_DUMP_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::dump {

inline tools::Manual manual() {
  return {
      .name = "neuron-dump",
      .summary = "pack what is known of a failed execution for a report, or show it",
      .description =
          R"(Writes one archive (.tar.gz) to send with a report: a core dump of the runtime, the end of the log, what
neuron-ls and neuron-doctor say, lines of the kernel's log about Neuron, facts of the host and of its processor,
versions, and the environment of this runtime. Without a dump the archive is of the host alone. With `--show` the
engines of a dump are printed instead.

The runtime starts this program itself behind an execution that has failed, if NEURON_OPEN_DUMP_PROGRAM names it, or it
lies at /opt/aws/neuron/bin/neuron-dump. The archive then lies beside the dump.)",
      .sections =
          {{"ARCHIVE",
            R"(All is in one folder. What could not be had is no failure: report.txt says what, and why.

report.txt :: What the runtime said of the failure, a list of the files, and what is missing.

engines.txt, core/ :: What `--show` prints of the dump, and its files.

log/ :: The last 4 MiB of each `--log`, and of the standard error of the failed process if that is a file.

host/neuron-ls.json, host/neuron-doctor.txt, host/neuron-doctor.json :: Devices, and what is wrong with them.

host/dmesg.txt, host/lspci.txt :: The lines that are about Neuron devices.

host/environment.txt :: Variables of this runtime, of its network, of launchers, and search paths. Those whose name
looks like a secret have no value.

host/versions.txt, host/lscpu.txt, host/uptime.txt, host/proc/ :: The host.

Processes and files of other users are not in it, nor the contents of SBUF, PSUM and HBM. Read it before you send it:
names of hosts and models are in it.)"},
           {"UPLOAD",
            R"(With `--s3-output-prefix`, which the runtime takes from NEURON_RT_S3_CORE_DUMP_PREFIX, the program `aws` copies the
archive to that place, with the credentials of its own. Without `aws` the archive stays where it is, and the exit
status is 1.)"}},
      .exit_statuses = {{0, "the archive is written; report.txt in it says what is missing"},
                        {1,
                         "there is no such dump, the archive cannot be written, or it was not "
                         "uploaded; the sentence says why"},
                        tools::kUsageStatus},
      .environment = {tools::kEmulatorVariable,
                      {"NEURON_OPEN_DUMP_PROGRAM", "of the runtime: the program that takes dumps"},
                      {"NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY",
                       "of the runtime: the folder of a dump; neuron-environment(7)"}},
      .examples = {{"neuron-dump -o report.tar.gz", "of this host, without a dump"},
                   {"neuron-dump /tmp/neuron-core-dump/dt-2026-11-27-04-02-cid-0000000000000000",
                    "with a dump, into a file here"},
                   {"neuron-dump --show FOLDER", "what the engines did"},
                   {"NEURON_OPEN_DUMP_PROGRAM=/usr/bin/neuron-dump ./program",
                    "a dump and its archive of each execution that fails"}},
      .see_also = {"neuron-doctor(1)", "neuron-ls(1)", "neuron-debug(1)", "neuron-environment(7)"}};
}

}  // namespace neuron::dump

#endif
