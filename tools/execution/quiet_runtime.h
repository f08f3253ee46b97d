// SPDX-License-Identifier: Apache-2.0
//
// The log of libnrt for a program that prints the sentences of libnrt itself.
// Callers: programs, before nrt_init and before they start threads. Cannot fail.
#ifndef TOOLS_EXECUTION_QUIET_RUNTIME_H
#define TOOLS_EXECUTION_QUIET_RUNTIME_H

namespace neuron::execution {

// Lets libnrt not log calls that fail on the console: they would be told twice. All else that its
// log has, warnings of lost data among it, is shown as the environment says. Variables that nothing
// reads are printed here to standard error, a line each that begins with `program`; with
// NEURON_RT_LOG_LEVEL=ERROR or QUIET they are not, as libnrt does not tell them then. With
// NEURON_RT_LOG_LEVEL_NRT this does nothing: the log is as it was asked for.
void quiet_runtime(const char* program);

}  // namespace neuron::execution

#endif
