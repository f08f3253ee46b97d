// SPDX-License-Identifier: Apache-2.0
// A rank of ours: collectives of the host executor, on orders from a board.
//
// Callers: the bench, which makes the arenas and forks; run() is all that a child does. Threads:
// one. Fails: sets `failed` of the board, with a sentence on stderr.
#ifndef TESTS_BENCH_CCOM_COLLECTIVE_WORKER_H
#define TESTS_BENCH_CCOM_COLLECTIVE_WORKER_H

#include <memory>
#include <vector>

#include "ccom/transport/arena.h"
#include "tests/bench/ccom/collective_board.h"

namespace neuron::bench {

// Before the fork, for all ranks.
std::vector<std::unique_ptr<ccom::Arena>> make_arenas(uint32_t ranks, uint64_t most);
// In the child.
void run_worker(board& orders, const std::vector<std::unique_ptr<ccom::Arena>>& arenas,
                uint32_t rank);

}  // namespace neuron::bench

#endif
