// SPDX-License-Identifier: Apache-2.0
// `neuron-digits train --parallel`: trains the digits model on several cores, of one process or of
// all that mpirun or srun has started, on one instance or on several. Callers: main.cpp, one
// thread, before nrt_init. Fails: false, with a sentence on stderr that names the rank that failed.
#ifndef TOOLS_NEURON_DIGITS_PARALLEL_COMMAND_H
#define TOOLS_NEURON_DIGITS_PARALLEL_COMMAND_H

#include <cstdint>
#include <span>

#include "tools/neuron-digits/dataset.h"

namespace neuron::digits {

struct ParallelOptions {
  uint32_t cores = 8;    // of this process: a rank each
  bool goes_on = false;  // without the processes that have failed
  unsigned epochs = 240;
  float rate = 0.05f;
};

bool train_parallel(const ParallelOptions& options, std::span<const Digit> training,
                    std::span<const Digit> unseen);

}  // namespace neuron::digits

#endif
