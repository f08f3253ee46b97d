// SPDX-License-Identifier: Apache-2.0
// Ranks of one process: rounds by a mutex and a condition, without sockets and threads.
//
// Callers: Bootstrap::join_all, and tests. Threads: one thread calls a rank's Bootstrap. All ranks
// of a group share its state; the last of them frees it. A rank that is destroyed has left: rounds
// that need it fail and name it. The thread that causes a failure also calls the handlers.
#ifndef CCOM_BOOTSTRAP_LOCAL_BOOTSTRAP_H
#define CCOM_BOOTSTRAP_LOCAL_BOOTSTRAP_H

#include <memory>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"

namespace neuron::ccom {

std::vector<std::unique_ptr<Bootstrap>> make_local_group(uint32_t size);

}  // namespace neuron::ccom

#endif
