// SPDX-License-Identifier: Apache-2.0
// Orders all steps of a rank, so that a single collective core can execute them one after the
// other.
//
// Concepts: interleave() simulates the programs of all ranks in turn, with counters instead of
// bytes and with the credits of the device. That gives a global order in which every step follows
// what it waits for. So each rank may take its own part of the order and block at any of its steps,
// and no circle of waits can arise. Each message also gets its place at the receiver, the
// receiver's semaphore, and the number of grants that its sender must have seen.
//
// Callers: the compiler, once per collective and rank; every rank gets the same result.
// Thread-safe: a function. Owns: its result. Fails: CCOM_INVALID with rank, channel and step for a
// schedule whose sends and receives do not meet or that waits in a circle; CCOM_RESOURCE beyond a
// limit.
#ifndef CCOM_DEVICE_INTERLEAVING_H
#define CCOM_DEVICE_INTERLEAVING_H

#include <span>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/device/buffer_place.h"
#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

// Bytes of a rank, by their numbers (RankBuffers::number).
struct AddressRange {
  uint64_t first = 0;
  uint64_t bytes = 0;

  bool overlaps(const AddressRange& other) const {
    return first < other.first + other.bytes && other.first < first + bytes;
  }
};

// The bytes that a step reads and writes at its own rank.
struct Footprint {
  std::vector<AddressRange> reads;
  std::vector<AddressRange> writes;
};
Footprint footprint(const Step& step, const RankBuffers& buffers);

enum class DeviceActionKind : uint8_t { kStep, kGrant };

struct DeviceAction {
  DeviceActionKind kind = DeviceActionKind::kStep;
  uint16_t channel = 0;
  uint16_t arrival = 0;      // semaphore of the receiver, counted from its first one for arrivals
  uint32_t credits = 0;      // send: the credit counter must show at least this, then loses one
  uint32_t number = 0;       // of the step in its channel
  Step step;                 // grant: the receive that is granted
  Slice remote_destination;  // send: the destination at the peer
};

struct Interleaving {
  std::vector<std::vector<DeviceAction>> ranks;
};

// `window`: messages that a receiver admits per peer and channel. `arrivals`: the number of
// semaphores of each rank for arriving messages; peers and channels share them.
Result<Interleaving> interleave(const Schedule& schedule, std::span<const RankBuffers> buffers,
                                uint32_t window, uint32_t arrivals);

}  // namespace neuron::ccom

#endif
