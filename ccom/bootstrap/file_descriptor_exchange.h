// SPDX-License-Identifier: Apache-2.0
// Descriptors between the ranks of a host, over a unix socket whose file is gone before another
// process can find it.
//
// Concepts: the lowest rank of a host listens. The others reach its socket through /proc, by the
// number of a descriptor that it told them. The system says which process a peer is. Nothing is
// left in the file system, unless the lowest rank is killed while it makes its socket: then a
// folder may stay in /tmp. Threads: the caller's. Fails: the job's failure, CCOM_TIMEOUT or a
// system error, each with the ranks.
#ifndef CCOM_BOOTSTRAP_FILE_DESCRIPTOR_EXCHANGE_H
#define CCOM_BOOTSTRAP_FILE_DESCRIPTOR_EXCHANGE_H

#include <vector>

#include "ccom/bootstrap/network_failures.h"
#include "ccom/bootstrap/network_rounds.h"

namespace neuron::ccom {

// As Bootstrap::exchange_descriptors().
Result<std::vector<int>> exchange_descriptors(const NetworkJob& job,
                                              const NetworkFailures& failures,
                                              NetworkRounds& rounds, int mine,
                                              base::Deadline deadline);

}  // namespace neuron::ccom

#endif
