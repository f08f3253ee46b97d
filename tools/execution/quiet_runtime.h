// SPDX-License-Identifier: Apache-2.0
//
// The log of libnrt for a program that prints the sentences of libnrt itself.
// Callers: programs, before nrt_init and before they start threads. Cannot fail.
#ifndef TOOLS_EXECUTION_QUIET_RUNTIME_H
#define TOOLS_EXECUTION_QUIET_RUNTIME_H

namespace neuron::execution {

// Lets libnrt log nothing of its interface and sessions, where the environment does not say what it
// shall log: their failures would be told twice. What libnrt alone would tell, variables that
// nothing reads, this prints to standard error, a line each that begins with `program`; with
// NEURON_RT_LOG_LEVEL=ERROR or QUIET it does not, as libnrt does not.
void quiet_runtime(const char* program);

}  // namespace neuron::execution

#endif
