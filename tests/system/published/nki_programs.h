// SPDX-License-Identifier: Apache-2.0
// Kernels of matmul.py, compiled by neuron-nki: the way that a user of NKI takes.
//
// Callers: the program model-times, the tests of repeated executions. Thread-safe: no state. Fails
// with neuron-nki's sentence.
#ifndef TESTS_SYSTEM_PUBLISHED_NKI_PROGRAMS_H
#define TESTS_SYSTEM_PUBLISHED_NKI_PROGRAMS_H

#include <string>

#include "tests/support/process.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::published {

// The function `kernel` for arguments as `neuron-nki compile --shapes` takes them, and a chip as
// its
// `--target` does.
kernels::Neff nki_matmul(const std::string& kernel, const test::Words& arguments,
                         const std::string& target = "trn2");

}  // namespace neuron::published

#endif
