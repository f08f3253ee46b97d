// SPDX-License-Identifier: Apache-2.0
// The program of a collective core and its DMA queues: instructions, descriptors, and text for
// people.
//
// The instructions and the rings contain no address of themselves, so both may lie anywhere; a
// prologue precedes the instructions. Descriptors are those of hw/udma.h, ready to be copied to
// device memory; their ring ids are those of the first lap. The launcher of the core rewinds the
// rings before each execution. Thread-safe: values.
#ifndef CCOM_DEVICE_DEVICE_PROGRAM_H
#define CCOM_DEVICE_DEVICE_PROGRAM_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace neuron::ccom {

inline constexpr uint32_t kDmaEngines = 16;  // of one core

struct Descriptor {
  uint32_t control = 0;
  uint32_t meta = 0;
  uint64_t address = 0;

  bool operator==(const Descriptor&) const = default;
};
static_assert(sizeof(Descriptor) == 16);

struct DescriptorRing {
  std::vector<Descriptor> m2s, s2m;
};

// As ccom_device_wait_t and ccom_device_action_t number them.
enum class WaitReason : uint8_t { kNone, kGo, kCredit, kArrival, kOwnTransfer };
enum class NoteAction : uint8_t { kNothing, kGrant, kSend, kReduce, kCopy, kDone, kOffer, kExpect };

// One of the two waits of an instruction.
struct WaitNote {
  WaitReason reason = WaitReason::kNone;
  uint8_t semaphore = 0;
  uint32_t peer = 0;   // rank of the world
  uint64_t bytes = 0;  // that arrive
};

// What one instruction waits for, if it waits, and what it then does.
struct InstructionNote {
  WaitReason reason = WaitReason::kNone;
  NoteAction action = NoteAction::kNothing;
  uint16_t collective = 0;  // its number in the stream, from 0
  uint32_t peer = 0;        // rank of the world: credit, arrival
  uint32_t target = 0;      // rank of the world that the action is for
  uint64_t bytes = 0;       // that the action writes
  std::array<WaitNote, 2> waits;
};

// Bytes of a collective: of this rank's buffers, and of the whole operation, by which bandwidths
// are counted.
struct CollectiveSize {
  uint64_t input = 0, output = 0, whole = 0;
};

// A message between this rank and one on another instance; a proxy carries it (ccom_device.h).
struct CrossingMessage {
  bool sends = false;
  uint32_t peer = 0;  // rank of the world
  uint16_t collective = 0;
  uint16_t channel = 0;
  uint16_t semaphore = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct DeviceProgram {
  std::vector<std::byte> code;
  std::array<DescriptorRing, kDmaEngines> rings;
  std::vector<InstructionNote> notes;     // one per instruction
  std::vector<std::string> names;         // of the collectives: "all_reduce of 1024 float32 (add)"
  std::vector<std::string> plans;         // of the collectives: equal on all members
  std::vector<std::string> algorithms;    // of the collectives: "ring"
  std::vector<CollectiveSize> sizes;      // of the collectives
  std::vector<CrossingMessage> crossing;  // in the order in which they become due
  uint64_t nic_latency_ps = 0;            // of the network
  double nic_bytes_per_second = 0;        // that this rank has of the NICs of its instance
  uint64_t moved_bytes = 0;               // read by all descriptors, once through the program

  // "waits in all_reduce ... (2 of 5) for rank 7 to take its data"; "" for an instruction that
  // does not wait.
  std::string describe(uint32_t pc) const;
};

}  // namespace neuron::ccom

#endif
