// SPDX-License-Identifier: Apache-2.0
// The layout of an arena. It is the same on all ranks of a group, since it follows from the group's
// size.
//
// Concepts: flight recorder, control words of the host executor, control words and rings of shared
// connections, staging (copies of buffers that peers cannot see, scratch), heap of ccom_mem_alloc.
// All regions begin as zeros, large ones at a multiple of 2 MiB. Memory that is never touched costs
// only address space. Callers: the communicator makes an arena of `heap` + its memory_bytes.
// Thread-safe: values. Cannot fail.
#ifndef CCOM_TRANSPORT_ARENA_LAYOUT_H
#define CCOM_TRANSPORT_ARENA_LAYOUT_H

#include <ccom/ccom.h>

#include <cstdint>

#include "ccom/flight/flight_recorder.h"

namespace neuron::ccom {

inline constexpr uint32_t kMaxChannels = 64;  // of a schedule, in shared memory

struct ArenaLayout {
  uint64_t flight = 0;       // FlightRecorder::kFlightMemory bytes
  uint64_t control = 0;      // host executor: kHostControlBytes
  uint64_t connections = 0;  // one SharedLink for each peer and stream
  uint64_t staging = 0;      // kStagingBytes for each stream
  uint64_t heap = 0;         // to the end

  static constexpr uint64_t kLarge = 2u << 20;
  static constexpr uint64_t kHostControlBytes = 4u << 20;
  static constexpr uint64_t kConnectionBytes = 128u << 10;  // of one peer
  static constexpr uint64_t kStagingBytes = uint64_t{4} << 30;

  static constexpr ArenaLayout of(uint32_t ranks) {
    ArenaLayout layout;
    layout.control = round(FlightRecorder::kFlightMemory);
    layout.connections = layout.control + kHostControlBytes;
    layout.staging = layout.connections + round(uint64_t{ranks} * kConnectionBytes);
    layout.heap = layout.staging + CCOM_MAX_STREAMS * kStagingBytes;
    return layout;
  }

 private:
  static constexpr uint64_t round(uint64_t bytes) { return (bytes + kLarge - 1) / kLarge * kLarge; }
};

}  // namespace neuron::ccom

#endif
