// SPDX-License-Identifier: Apache-2.0
// Kernels of matmul.py, compiled by neuron-nki: the way that a user of NKI takes.
//
// Callers: the program model-times. Thread-safe: no state. Fails with neuron-nki's sentence.
#ifndef TESTS_SYSTEM_PUBLISHED_NKI_PROGRAMS_H
#define TESTS_SYSTEM_PUBLISHED_NKI_PROGRAMS_H

#include <string>

#include "tests/support/process.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::published {

// trn2: the function `kernel` for arguments as `neuron-nki compile --shapes` takes them.
kernels::Neff nki_matmul(const std::string& kernel, const test::Words& arguments);

}  // namespace neuron::published

#endif
