// SPDX-License-Identifier: Apache-2.0
// A rank of ours whose buffers are device memory: executions of a NEFF with an all-reduce, on
// orders from a board, as a framework calls them.
//
// Callers: the bench, which forks; run_device_worker() is all that a child does. The whole output
// is compared after each order. Fails: sets `failed` of the board, with a sentence on stderr.
#ifndef TESTS_BENCH_CCOM_DEVICE_WORKER_H
#define TESTS_BENCH_CCOM_DEVICE_WORKER_H

#include <string>

#include "tests/bench/ccom/collective_board.h"

namespace neuron::bench {

struct DeviceWork {
  std::string emulator;  // NEURON_EMULATOR of its host
  std::string root;      // ADDRESS:PORT where the ranks meet
  uint32_t core = 0;     // of the host's, from 0
  uint32_t rank = 0, ranks = 0;
};

void run_device_worker(board& orders, const DeviceWork& work);

}  // namespace neuron::bench

#endif
