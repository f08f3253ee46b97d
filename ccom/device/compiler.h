// SPDX-License-Identifier: Apache-2.0
// From schedules to the program of one collective core (CC core) and its DMA rings.
//
// Concepts. A stream is a sequence of collectives on one CC core; its program waits for `go`,
// executes the next collective, increments the core's semaphores, and after the last begins anew.
// Semaphores of a CC core: 16-31 count transfers of its own that are on their way, 32-127 what
// arrives (each written by one message at a time), 128-255 credits, by the place of who grants.
// All are 0 again at the end. Data moves by push: the sender's DMA engines write to where the
// receiver wants it, then add to its semaphore; a send waits for its credit first, so that nobody
// is written to before it has begun the same collective.
// Reductions: one compute packet for up to 64 operands, in their order, rounded once; more operands
// round once for each 63 further ones.
// Callers: the C interface (ccom_device.h). Thread-safe: no. Fails: CCOM_UNSUPPORTED with what DMA
// engines do not have, CCOM_INVALID, CCOM_RESOURCE.
#ifndef CCOM_DEVICE_COMPILER_H
#define CCOM_DEVICE_COMPILER_H

#include <string>
#include <utility>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/device/device_program.h"
#include "ccom/device/generation.h"
#include "ccom/device/interleaving.h"
#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

// Semaphores of a CC core.
inline constexpr uint32_t kTransferSemaphores = 16, kFirstTransferSemaphore = 16;
inline constexpr uint32_t kArrivalSemaphores = 96, kFirstArrivalSemaphore = 32;
inline constexpr uint32_t kCreditSemaphores = 128, kFirstCreditSemaphore = 128;

// Where a rank computes.
struct DevicePlace {
  const DeviceGeneration* generation = find_generation(2);
  uint32_t chip = 0;     // routing id
  uint32_t core = 0;     // physical core of the chip
  uint64_t cc_core = 0;  // window of the stream's CC core, as its own chip addresses it
};

// What a stream of this rank has.
struct StreamPlace {
  DevicePlace place;
  uint64_t m2s_doorbell = 0;  // tail increment of queue 15 of the core's DMA engine 0
  uint64_t s2m_doorbell = 0;
  uint32_t stride = 0;   // between DMA engines
  uint16_t engines = 0;  // those the stream may use
  uint64_t one = 0;      // device address of a word that is 1
};

struct DeviceCollective {
  const Schedule* schedule = nullptr;
  uint32_t window = 4;
  std::string name;
  Rank rank = 0;                     // of this rank in the group
  std::vector<uint32_t> world;       // rank of the world of each member
  std::vector<DevicePlace> places;   // of the members
  std::vector<RankBuffers> buffers;  // of the members, on their own chips
  // Increment aliases of this chip that learn of the end, and what they are given.
  std::vector<std::pair<uint64_t, uint32_t>> done;
};

// The address on `place`'s chip as a descriptor of another chip writes it.
uint64_t routed(const DevicePlace& from, const DevicePlace& place, uint64_t address);

Result<DeviceProgram> compile_stream(const StreamPlace& stream,
                                     const std::vector<DeviceCollective>& collectives);

}  // namespace neuron::ccom

#endif
