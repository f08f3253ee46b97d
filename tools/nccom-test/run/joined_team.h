// SPDX-License-Identifier: Apache-2.0
// The ranks of a job whose processes mpirun or srun has started: process 0 leads it, the others
// join.
//
// Concepts: the leader listens on the port behind that of rank 0's address. A process that joins
// proves that it knows the secret of the job (CCOM_SECRET, else the root's address, which keeps out
// mistakes and nobody else). The leader proves the same beside seed and backend, and the process
// becomes a worker whose standard input and output are its connection (launcher.h). What the ranks
// know in common is made of the secret, which does not travel. Few strangers are heard at a time,
// and none for long. Callers: main. Owns: the listener, the
// connections, the threads of the leader's own ranks. Fails with a sentence that names the process
// that has not joined; a process that goes later takes its ranks with it, by name.
#ifndef TOOLS_NCCOM_TEST_RUN_JOINED_TEAM_H
#define TOOLS_NCCOM_TEST_RUN_JOINED_TEAM_H

#include <memory>

#include "tools/nccom-test/run/launcher.h"

namespace neuron::nccom {

// For process 0.
ccom::Result<std::unique_ptr<Team>> lead_launched(const RunContext& context, Collector& collector);

// For the others: joins, runs this process's ranks, and returns the exit status.
int join_launched(RunContext context);

}  // namespace neuron::nccom

#endif
