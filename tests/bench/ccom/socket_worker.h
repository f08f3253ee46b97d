// SPDX-License-Identifier: Apache-2.0
// What the way between hosts costs in a collective: a rank that only moves, over plain TCP sockets,
// bytes that cross between hosts. It adds nothing up, copies nothing within its host and waits for
// no rank of it. No lower bound: another pattern with fewer messages may be quicker.
//
// Concepts: BOARD_ALL_REDUCE of up to kShortBytes is one message from each host to each other, by
// one rank of it; a longer one is a reduce-scatter and an all-gather of the hosts, of which each
// rank carries its part, as in the other operations. Sockets are polled: nobody sleeps.
// Callers: the bench, which forks; run_socket_worker() is all that a child does. Results are not
// compared: there are none. Fails: sets `failed` of the board, with a sentence on stderr.
#ifndef TESTS_BENCH_CCOM_SOCKET_WORKER_H
#define TESTS_BENCH_CCOM_SOCKET_WORKER_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/ccom/collective_board.h"

namespace neuron::bench {

struct SocketWork {
  std::vector<std::string> addresses;  // of the hosts
  uint16_t port = 0;                   // of rank 0; the others follow
  uint32_t each = 0;                   // ranks of a host
  uint32_t rank = 0;
};

// Returns when the board's orders end. `work` must outlive it; `orders` is the caller's.
void run_socket_worker(board& orders, const SocketWork& work);

}  // namespace neuron::bench

#endif
