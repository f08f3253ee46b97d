// SPDX-License-Identifier: Apache-2.0
// FabricEndpoint that behaves like EFA, for tests: properties that callers must not rely on do not
// hold.
//
// Concepts: messages are cut into packets of 8 KiB, which leave and arrive in any order. Nothing is
// sent inline. Posts are refused at times. Completions come late and out of order, and a queue that
// is not emptied overruns, which loses the endpoint. A receiver without room returns packets, which
// are sent again (receiver not ready). A receive cannot be cancelled. Nothing is lost, and nothing
// comes twice. Its behaviour follows from the seed and the order of calls. Callers: tests, and jobs
// with CCOM_PROVIDERS=rough+NAME. Threads: one at a time. Owns: its link. Fails: as FabricEndpoint
// says; a packet that breaks the format is dropped and counted.
#ifndef CCOM_TRANSPORT_ROUGH_ENDPOINT_H
#define CCOM_TRANSPORT_ROUGH_ENDPOINT_H

#include <memory>

#include "ccom/transport/rough_link.h"

namespace neuron::ccom {

struct RoughManners {
  uint64_t seed = 1;
  uint32_t packet_bytes = 8192;       // at most
  uint32_t depth = 256;               // operations of each direction
  uint32_t completion_delay = 8;      // polls that a completion may be held back
  uint32_t refuse_one_in = 16;        // one in this many posts returns -EAGAIN; 0: none
  uint32_t unexpected_messages = 64;  // kept by a receiver; packets of others go back
  uint64_t unexpected_bytes = 65536;  // of one such message
  uint32_t completion_queue = 4096;   // entries

  // Uses the seed of CCOM_ROUGH_SEED.
  static RoughManners from_environment();
};

Result<std::unique_ptr<FabricEndpoint>> make_rough_endpoint(std::unique_ptr<PacketLink> link,
                                                            const RoughManners& manners);

}  // namespace neuron::ccom

#endif
