// SPDX-License-Identifier: Apache-2.0
// A connection between two ranks of one host, for groups that span several hosts.
//
// Concepts: each direction of a stream is a ring of descriptors in the sender's arena. A descriptor
// gives the place of a message, or reports that a message was consumed. The receiver reads data in
// place if it can see it (arena, or same process), else from a copy in the sender's staging memory.
// Grants are not needed. Callers: the executor between hosts. Threads: one per pair and side. Owns:
// no memory but its own lists; the arenas outlive it. Fails: CCOM_RESOURCE if a message that must
// be copied is larger than the staging memory, CCOM_MISMATCH for an invalid descriptor.
#ifndef CCOM_TRANSPORT_SHARED_CONNECTION_H
#define CCOM_TRANSPORT_SHARED_CONNECTION_H

#include <memory>

#include "ccom/base/error.h"
#include "ccom/transport/arena.h"
#include "ccom/transport/connection.h"

namespace neuron::ccom {

struct SharedEnd {
  Rank rank = 0;
  Rank peer = 0;
  uint32_t size = 1;  // of the group; it determines the layout of arenas
  Arena* own = nullptr;
  Arena* other = nullptr;
  bool one_process = false;  // addresses are valid on both sides
};

Result<std::unique_ptr<Connection>> make_shared_connection(const SharedEnd& end);

}  // namespace neuron::ccom

#endif
