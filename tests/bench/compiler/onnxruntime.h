// SPDX-License-Identifier: Apache-2.0
//
// Wall times of compiled models on the emulated chip beside those of onnxruntime with one thread:
// what emulation costs on this host. The values are compared, too.
//
// Callers: compiler-times, one thread, with an open execution::Session. Owns a Node process while a
// model is measured. Skips, with a row that says so, what tests/system/models/packages.py has not
// fetched.
#ifndef TESTS_BENCH_COMPILER_ONNXRUNTIME_H
#define TESTS_BENCH_COMPILER_ONNXRUNTIME_H

#include <string>
#include <vector>

#include "tools/compiler/lowering/lower.h"

namespace neuron::bench {

struct Compared {
  int skipped = 0, failed = 0;
};

// One row of JSON for each model that `names` has, or whose benchmark it has; without names all.
Compared against_onnxruntime(const std::vector<std::string>& names,
                             const lowering::Options& options);

}  // namespace neuron::bench

#endif
