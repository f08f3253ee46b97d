// SPDX-License-Identifier: Apache-2.0
// What shows that a message of the network comes from a rank of the job.
//
// Whoever reaches a rank's port can send to it, and libfabric tells nobody who that is. So each
// rank draws a key and gives it to the others through the bootstrap, which strangers do not enter.
// From the key follows, for each sender, a pass that stands in front of each message of the pool,
// and a mask for the word of every message. Without the pass a message is dropped. It does not help
// against somebody who reads the wire. Thread-safe: values. Cannot fail, except new_port_key().
#ifndef CCOM_TRANSPORT_PORT_PASS_H
#define CCOM_TRANSPORT_PORT_PASS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/schedule/step.h"

namespace neuron::ccom {

using PortKey = std::array<std::byte, 16>;

struct PortPass {
  static constexpr uint64_t kBytes = 8;
  std::array<std::byte, kBytes> pass{};
  uint32_t mask = 0;
};

// CCOM_SYSTEM if the host has no random numbers.
Result<PortKey> new_port_key();
// What `sender` shows to the rank that has drawn the key.
PortPass pass_of(const PortKey& receiver, Rank sender);

}  // namespace neuron::ccom

#endif
