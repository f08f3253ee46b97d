// SPDX-License-Identifier: Apache-2.0
//
// The manual page of neuron-profile.
#ifndef TOOLS_NEURON_PROFILE_MANUAL_H
#define TOOLS_NEURON_PROFILE_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::profile {

inline tools::Manual manual() {
  return {
      .name = "neuron-profile",
      .summary = "show where the time of a NEFF goes",
      .description =
          R"(`neuron-profile capture` executes a NEFF and writes what every engine, DMA queue and semaphore of its
NeuronCore did into a profile. `neuron-profile view` says what limits the execution: which engine or
transfer the critical path goes through, what idle engines wait for, and which source lines cost most.
`neuron-explorer` is the same program.

Times are those of the device, not of this host. A program of one's own writes a profile with
nrt_profile_start() and nrt_profile_stop().)",
      .sections =
          {{"FORMATS",
            R"(report :: What limits the execution, in sentences and tables. It is the default; where standard output is no
terminal, standard error says so, because the original's default is parquet. `--data-path` and `--display-name`
choose parquet by themselves.

summary-text :: A metric a line, by the names of the original's summary, and the report behind them.

summary-json :: {"n_HASH": {METRIC: VALUE, ...}}. Times are seconds; metrics that end in `_percent` are
fractions from 0 to 1.

json :: Every instruction, transfer and change of a semaphore. Times are nanoseconds from the program's first
instruction; those of the runtime's set-up before it are negative.

html :: One page for a browser, with the timeline and the critical path in it; it needs no server and no
network. A region that is marked by dragging with Shift has a table of what was active in it, and stands in the
page's address (#region=FROM,TO in nanoseconds). `--html` is short for it. The file is profile.html unless
`--output-file` names another. With `--open`, xdg-open(1) or else x-www-browser(1) shows it; `capture --open` writes
the page beside the profile, and shows it.

perfetto :: A trace for ui.perfetto.dev, by default ntff.pftrace. Events of the program are on a clock of their
own, number 64, which counts from its first instruction; those of the runtime's set-up before it, which have tracks
of their own, are on number 65, which counts from the doorbell. A snapshot pairs both with the host's. With
`--show-perfetto-flows` an arrow leads from each instruction to every transfer that it started, and from what changed
a semaphore to who awaited it; the first 4194304 are shown.

parquet, db :: Tables of the published schema 7.4.0 in FOLDER/profiles/global/NAME@latest, or in the folder that
`--output-file` names. A table has a file if it has rows: Instruction, AssemblyInstruction, ActiveTime, CoreBarriers,
DmaPacketAggregated, DmaPacket, SemaphoreUpdate, Flow, CcOp, CcInstruction, CcStream; DmaUsage, DmaUsageSummary,
HbmUsage, PendingDma, SbufUsage, SbufAllocation, PsumUsage; OpcodeSummary, Summary, HbmUsageSummaryByType; TensorInfo,
DmaQueuesInfo, StackFrame and its names, KernelInstructions, KernelStackFrames; Metadata, ExecutionInfo, NeffHeader,
Warning; and SchemaFields, which lists the fields of all that were written (`neuron-profile --show-profile-schema`
prints those of all there are). With `--session-dir`:
SystemProfileEvents, SystemProfileMetadata, CpuUsage, HostMemUsage, DeviceProfileList. Rows are in the order in
which things ended. Tables of these names that an earlier view left in the folder go when all new ones are written, and
stay if they cannot be; other files stay always. What nothing of an emulated core says is null, or 0 or no text where
the schema says that every row has it; the description of such a field begins with "Not measured".

csv :: One of these tables: `--table instruction`, `dma`, `semaphore`; `collective`, each run of a collective;
`cc`, the instructions of collective cores; `link`, the transfers to other ranks (direction out) and the messages
from them (in); or `path`, the steps of the critical path. A message that comes in was moved by the DMA engines
of its sender, in whose profile that is. Here it has the time from when this rank began to wait for it until it
saw it. Bandwidths of a collective are bytes a second: the bytes of the operation by its time on this rank, and
that times the factor that nccom-test takes for the bus. -1: not known.)"},
           {"THE CRITICAL PATH",
            R"(It is walked backwards from the end of the execution: from an instruction to what ended its wait (a
semaphore, and the instruction or the transfer that changed it), or to the instruction before it on the
same engine. Through a collective it goes on over the core that executes it: its transfers, its waits for
other ranks, and the instruction that began it. Every picosecond belongs to one step, so the shares add up to
the whole. To make the execution shorter, this path must get shorter; other work is hidden behind it.)"},
           {"INSPECT",
            R"(`neuron-profile inspect -o FOLDER COMMAND ...` runs the command with NEURON_RT_INSPECT_ENABLE=1,
NEURON_RT_INSPECT_OUTPUT_DIR=FOLDER, and NEURON_RT_INSPECT_SYSTEM_PROFILE and NEURON_RT_INSPECT_DEVICE_PROFILE, which
stay as they are if they are set; man neuron-environment lists others. Its exit status is that of the command; 126 and
127 mean, as those of env(1), that it could not be run. Without `-o` the folder is ./output, and the present one if
the program is called neuron-explorer. `view --session-dir` shows what was recorded; what a session lacks, standard
error says, and the rest is shown.)"},
           {"LOSSES",
            R"(A device drops events that come faster than this host reads them. capture says on standard error
how many a profile lacks, and view does, too. The exit status stays 0, unless `--fail-on-loss` is given.)"},
           {"FILES",
            R"(An output that is the same file as an input, by whatever name or link, is refused. A file takes its name
when it is whole: until then, and if the disk gets full, an older one stays. capture replaces profiles and no other
files.

A profile has the name of the original's files (.ntff) and a format of this project. Profiles of the
vendor's tools are refused with a sentence. When the profiled process dies, its profile can be read up to
there.)"}},
      .exit_statuses =
          {tools::kDoneStatus,
           {1,
            "an execution failed, a file cannot be read or written, there is no device, or "
            "what was to be checked does not hold; standard error says why"},
           tools::kUsageStatus,
           {3, "no permission to open the devices"},
           {4, "somebody holds the cores"}},
      .environment = {tools::kEmulatorVariable,
                      {"NEURON_RT_VISIBLE_CORES", "the cores of which the first ones are used"},
                      tools::kNoColorVariable},
      .examples = {{"neuron-profile capture -n model.neff", "one execution, into profile.ntff"},
                   {"neuron-profile capture -n model.neff --open", "and its timeline in a browser"},
                   {"neuron-profile view -s profile.ntff", "what limits it"},
                   {"neuron-profile capture -n model.neff --num-exec 3 --profile-nth-exec 3",
                    "the third execution, into profile_exec_3.ntff"},
                   {"neuron-profile view -s profile.ntff --html", "a page with the timeline"},
                   {"neuron-profile view -s profile.ntff --output-format parquet --data-path .",
                    "tables for DuckDB and others, in profiles/global/profile@latest"},
                   {"neuron-profile inspect -o output ./program",
                    "record the calls and executions of a program"},
                   {"neuron-profile view -d output/trn1.2xlarge_pid_4711",
                    "tables of an inspect session"},
                   {"neuron-profile compare before.ntff after.ntff --fail-above 2",
                    "what changed; fails if it got slower by more than 2 %"},
                   {"neuron-profile view -s profile.ntff --output-format summary-json",
                    "metrics for a program"}},
      .see_also = {"neuron-run(1)", "neuron-bench(1)", "neuron-packager(1)"}};
}

}  // namespace neuron::profile

#endif
