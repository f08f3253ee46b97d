// SPDX-License-Identifier: Apache-2.0
// A rank of ours: collectives by ccom_run, on orders from a board, as a program calls them.
//
// Callers: the bench, which forks; run_worker() is all that a child does. Threads: one, beside
// those of libccom. The whole output is compared after each order. Fails: sets `failed` of the
// board, with a sentence on stderr.
#ifndef TESTS_BENCH_CCOM_COLLECTIVE_WORKER_H
#define TESTS_BENCH_CCOM_COLLECTIVE_WORKER_H

#include <string>

#include "tests/bench/ccom/collective_board.h"

namespace neuron::bench {

// `root`: ADDRESS:PORT where the ranks meet.
void run_worker(board& orders, const std::string& root, uint32_t rank, uint32_t ranks);

}  // namespace neuron::bench

#endif
