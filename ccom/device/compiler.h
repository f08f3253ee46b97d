// SPDX-License-Identifier: Apache-2.0
// Compiles schedules into the program of one collective core (CC core) and its DMA rings.
//
// Concepts. A stream is a sequence of collectives on one CC core. Its program waits for `go`,
// executes the next collective, increments the core's semaphores, and begins anew after the last
// one. Semaphores of a CC core: 16-31 count its own transfers in flight, 32-127 count arrivals (one
// message at a time writes each), 128-255 count credits, by the place of the rank that grants, or
// by the number that its UltraServer's ranks have agreed about. All are 0 again at the end. Data
// moves by push: the sender's DMA engines write to the receiver's place, then add to its semaphore.
// A send waits for its credit first, so no rank is written to before it has begun the same
// collective.
//
// A message to or from another instance is a line in a list. When it is due, the CC core posts the
// line's number as a notification for the proxy of this rank: for a send when its bytes are there,
// for a receive when its place is free. The proxy carries it and adds 1 to the semaphore that the
// CC core then waits for. Credits are the network's own; the CC core waits for none.
//
// A reduction is one compute packet for up to 64 operands, in their order, rounded once. With more
// operands, each further 63 are rounded once more. Callers: stream_planner. Thread-safe: no. Fails:
// CCOM_UNSUPPORTED with what DMA engines cannot do, CCOM_INVALID, CCOM_RESOURCE.
#ifndef CCOM_DEVICE_COMPILER_H
#define CCOM_DEVICE_COMPILER_H

#include <ccom/ccom_device.h>

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
inline constexpr uint32_t kArrivalSemaphores = CCOM_DEVICE_ARRIVALS, kFirstArrivalSemaphore = 32;
inline constexpr uint32_t kCreditSemaphores = 128, kFirstCreditSemaphore = 128;

// The core of a rank.
struct DevicePlace {
  const DeviceGeneration* generation = find_generation(2);
  uint32_t chip = 0;      // routing id
  uint32_t core = 0;      // physical core of the chip
  uint64_t cc_core = 0;   // window of the stream's CC core, as its own chip addresses it
  uint32_t instance = 0;  // places of another one are out of reach of descriptors
  uint32_t node = 0;      // of the instance, where that is an UltraServer
  uint32_t credit = 0;    // 1 + number of its counter of credits; 0: by chip and core
};

// The hardware that a stream of this rank uses.
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
  // Increment aliases of this chip to signal at the end, and the values to add.
  std::vector<std::pair<uint64_t, uint32_t>> done;
};

// The address on `place`'s chip, in the form that a descriptor of another chip needs.
uint64_t routed(const DevicePlace& from, const DevicePlace& place, uint64_t address);

Result<DeviceProgram> compile_stream(const StreamPlace& stream,
                                     const std::vector<DeviceCollective>& collectives);

}  // namespace neuron::ccom

#endif
