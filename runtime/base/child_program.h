// SPDX-License-Identifier: Apache-2.0
//
// A program that is run to its end, or to a deadline. It reads nothing; what it prints goes to
// standard error, because standard output belongs to the program that has the library. Signals have
// their defaults in it.
// Callers: core dumps. Thread-safe: yes. Fails: NRT_FAILURE if it cannot be started, ends with
// another status than 0, or takes longer: then it and its children are killed.
#ifndef RUNTIME_BASE_CHILD_PROGRAM_H
#define RUNTIME_BASE_CHILD_PROGRAM_H

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::runtime {

// `words`: the path of the program, and its arguments.
Result<void> run_child_program(const std::vector<std::string>& words,
                               std::chrono::milliseconds patience);

}  // namespace neuron::runtime

#endif
