// SPDX-License-Identifier: Apache-2.0
// Model times of kernels on generation 3, which gives the bits of generation 2 (goldens.h).
// Callers: expect_golden(). Constants.
#ifndef TESTS_DIFFERENTIAL_GOLDENS_V3_H
#define TESTS_DIFFERENTIAL_GOLDENS_V3_H

#include "tests/differential/goldens.h"

namespace neuron::differential {

// 0 for a kernel without a time in the table; then the failing test prints it.
uint64_t device_ps_on_generation_3(const Golden& golden);

}  // namespace neuron::differential

#endif
