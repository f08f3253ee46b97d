// SPDX-License-Identifier: Apache-2.0
//
// The texts of nccom-test for --help and its manual page.
// Callers: options.cpp, main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NCCOM_TEST_INPUT_MANUAL_H
#define TOOLS_NCCOM_TEST_INPUT_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::nccom {

inline tools::Manual manual() {
  return {
      .name = "nccom-test",
      .summary = "run collectives, measure them, check their results",
      .description = R"(Runs one or several collective operations over a sweep of sizes and prints a
row for each: size, elements, type, time, bandwidth of the algorithm (size / time) and of the bus
(times 2(r-1)/r for all_reduce, (r-1)/r for all_gather, reduce_scatter, alltoall, gather, scatter, 1
for the rest; r is the size of a replica group). Bandwidths are GB/s of 10^9 bytes; `--gib` makes
them GiB/s and says so.

Operations: all_reduce (allr), all_gather (allg), reduce_scatter (redsct), alltoall, sendrecv,
permute, broadcast, reduce, gather, scatter, barrier, all_gatherv (allgv), reduce_scatterv,
alltoallv. sendrecv sends from rank 0 to rank 1, permute from each rank to the next, unless
`--custom-src-target-pairs` says otherwise.)",
      .sections =
          {{"WHERE IT RUNS",
            R"(--backend device :: Programs on NeuronCores, each rank one core; the times are those of the
device (model time on an emulated one) and include the copies to and from the buffers of the
collective. Default where there is a device or NEURON_EMULATOR is set.

--backend host :: Memory of this host through libccom. Default elsewhere.

--backend network :: The same over libfabric, also between ranks of one host. Default with several
nodes.

--processes :: One process for each rank; else ranks are threads. Processes share emulated devices:
NEURON_EMULATOR is unix:PATH, or a profile, for which a daemon is started for the run.

--nnodes, --hosts :: Several nodes, with NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT of the first.

mpirun, srun :: Under Open MPI, MPICH or Slurm the processes that the launcher has started are the
job: ranks are divided evenly among them (one each without -r), process 0 prints the table. On
several nodes all need NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT of the first, where PORT and the next are
free; srun's nodes are found by name. CCOM_SECRET keeps others out; without one, whoever reaches the
address can join.

--simulate :: In model time on a system of a profile (trn1.32xlarge, trn2.48xlarge, ... or a JSON
file) with `--chips` chips.)"},
           {"SIMULATION",
            R"(Ranks of one instance pay what the emulated chips take for every instruction, descriptor and
semaphore (`--model chips`); programs of devices copy tensors besides. The algorithm is the one that devices take.
Several instances, and `--model links`, `--costs`, `--contention`, `--fail`, `--window`, `--jitter` and `--heat-map`, have
the model of links: messages queue for links and NICs, and steps cost what `--costs` says. The automatic choice is then the
algorithm that the simulation finds quickest. Groups whose nodes are alike are folded. A simulation takes at most
`--memory`; an algorithm that is named and needs more is refused at once with an estimate. On a terminal the progress is
shown.

`--compare RUN.json` prints the times of a measured run (its `--json` report) beside the simulated ones of the same
operations, sizes, types and ranks, and how far they are apart; where the algorithms differ, both are named. With
`--tolerance` a row that is further apart, in either direction, is a failure.)"},
           {"SIZES AND FILES",
            R"(Suffixes of sizes are powers of 1024. Sizes round up to what the group can divide. With `-I` and
`-W`, all operations of a program are run W times unmeasured and I times measured. The option
--algorithm lists the algorithms.

--custom-replica-groups :: {"replica_groups": [[[0,1],[2,3]]]}

--custom-src-target-pairs :: {"src_target_pairs": [[[0,1],[1,0]]]}

--variable-size-op-metadata :: {"metadata": [{"send_counts": [...], "send_displs": [...]}]}

--streams-json :: {"streams": [{"operation": "allr", "maxbytes": "1M", "ops_per_iter": 2}]}, whose
keys are the long options.)"},
           {"RESULTS",
            R"(`--check` compares the result of every operation, measured or not, with one computed on the host,
with `--unique-buff` too: the first and the last result of a size element by element, those between them
by a digest of all their bytes, and element by element if it is not that of a right result. It does so
outside of the measured times, and spoils what an earlier operation left. After a look the ranks meet,
so that none measures how long another looks; small buffers exist several times, and are looked at
together. Where ops_per_iter repeats an operation, the device keeps only the last result, and only
that is compared; in host memory each one is. A difference is a failure that names rank, operation
and element; input, output and expected output are written to `--dump-dir`; `--seed` repeats a run.

A size that failed has a row in the words of the original, "Failure running neuron-bench - log file
/tmp/nccom_test_log_....log" (in TMPDIR, if that is set). The sentence is in the file and on standard error, and
"failure" in JSON and CSV.

`--format json` prints what `--json -` does, `csv` what `--csv -` does, and `ndjson` an object for each
row. Notes and verdicts are then on standard error.

`--heat-map` sends between all pairs of ranks, one after the other, and marks links slower than half
of the median; simulated: the load of each link. A rank that does not get on within `--timeout` is
named with what it was doing.)"},
           {"CALIBRATION",
            R"(`--calibrate FILE` measures a few operations with several algorithms each (1 KiB to 4 MiB of fp32,
unless sizes and type are given) where the other options say, fits the prices of the library's cost model to the
medians, and writes them to the file; prices of other media that it holds stay. CCOM_CALIBRATION=FILE makes the library
choose algorithms by these prices. All ranks of a job must have the same: ranks that do not are told both sides when they
join.)"}},
      .exit_statuses = {{0, "all ran, and passed"},
                        {1, "something failed; the row or standard error says what"},
                        tools::kUsageStatus},
      .environment = {tools::kEmulatorVariable,
                      {"NEURON_RT_ROOT_COMM_ID", "ADDRESS:PORT of rank 0, for several nodes"},
                      {"TMPDIR", "folder for the log files of failures; otherwise /tmp"},
                      {"CCOM_CALIBRATION", "file of prices, written by --calibrate"}},
      .examples =
          {{"nccom-test allr -r 2 -b 8 -e 64M -f 8 -d fp32 -c", "a sweep, checked"},
           {"NEURON_EMULATOR=trn1.32xlarge nccom-test alltoall -r 32 -b 64K -e 64K -c",
            "on 32 emulated cores"},
           {"nccom-test allr -r 64 -N 2 -s n1 n2 --root-comm-id 10.0.0.1:45000", "on two hosts"},
           {"nccom-test --calibrate prices.json --backend host -r 4", "prices of this host"},
           {"nccom-test allr --simulate trn1.32xlarge --chips 512 -b 64M -e 384M --heat-map",
            "in model time on 512 chips"},
           {"nccom-test allr --simulate trn1.32xlarge -r 32 -b 4K -e 1M -d fp32 --compare run.json",
            "beside what `--json run.json` has written on devices"}},
      .see_also = {"nccom-postmortem(1)", "neuron-ls(1)"}};
}

}  // namespace neuron::nccom

#endif
