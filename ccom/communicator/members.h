// SPDX-License-Identifier: Apache-2.0
// The first exchanges of a communicator: the arenas of this host's ranks, the agreement on
// settings, and the places of all ranks.
//
// Callers: communicators while they are made. Thread-safe: no, except that communicators of one
// process share the arenas of its ranks. Fails: CCOM_RESOURCE, CCOM_MISMATCH with ranks.
#ifndef CCOM_COMMUNICATOR_MEMBERS_H
#define CCOM_COMMUNICATOR_MEMBERS_H

#include <memory>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/communicator/environment.h"
#include "ccom/plan/planner.h"
#include "ccom/transport/arena.h"

namespace neuron::ccom {

// The arena of each rank; null: on another host, or without shared memory.
Result<std::vector<std::shared_ptr<Arena>>> share_arenas(Bootstrap& bootstrap,
                                                         const Settings& settings,
                                                         base::Deadline deadline);
// Checks that all ranks have the same settings where they must.
Result<void> agree(Bootstrap& bootstrap, const Settings& settings, base::Deadline deadline);
Result<Group> place_members(const std::vector<Member>& members, const Settings& settings);
// Whether all ranks are processes or threads of one host.
bool one_host(const std::vector<Member>& members);

}  // namespace neuron::ccom

#endif
