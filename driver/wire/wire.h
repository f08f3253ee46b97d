// SPDX-License-Identifier: Apache-2.0
// What travels between a process and the daemon whose devices it shares.
//
// Concepts: SOCK_SEQPACKET, one message a packet, numbers in host order (one machine). A connection
// begins with Hello and Welcome, which agree on a version and on features; then it is one open
// descriptor of one device. Requests carry an id that the reply repeats, so that calls of several
// threads may be in flight. Data that does not fit a message travels in a memory file of the
// client, passed along. Registers and doorbells have slots in a page of shared memory (RingPage).
// Used by: driver/ndl (client), transport/shared_* (daemon). Structs only grow at their end.
#ifndef DRIVER_WIRE_WIRE_H
#define DRIVER_WIRE_WIRE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "uapi/neuron_observe.h"

namespace neuron::wire {

inline constexpr uint32_t kMagic = 0x45554E4E;
// Versions that this code speaks. A new one only for what old peers would misunderstand; whatever
// can be left out is a feature.
inline constexpr uint16_t kOldestVersion = 1;
inline constexpr uint16_t kNewestVersion = 1;

// Bits of Hello and Welcome; both sides use those that both have. Bit 0 was once that of clients
// which got whole memories, those of others included.
inline constexpr uint64_t kFeatureDoorbells = 2;  // RingPage
inline constexpr uint64_t kFeatureMapping = 4;    // kMap and kResolve bring files of allocations
inline constexpr uint64_t kFeaturePosts = 8;      // PostedWrites
inline constexpr uint64_t kFeatures = kFeatureMapping | kFeatureDoorbells | kFeaturePosts;

inline constexpr size_t kMaxMessage = 64u << 10;
inline constexpr size_t kMaxInlineData = 32u << 10;  // more goes into a file
inline constexpr uint64_t kMaxData = 64u << 20;      // of one call, each way
inline constexpr unsigned kMaxCalls = 64;            // in flight on one connection
inline constexpr size_t kMaxSentence = 1023;

enum class Kind : uint16_t {
  kHello = 1,
  kIoctl = 2,     // IoctlRequest, argument, data
  kMap = 3,       // MapRequest
  kResolve = 4,   // ResolveRequest
  kRegister = 5,  // RegisterRequest
  kWait = 6,      // WaitRequest
  kDescribe = 7,  // DescribeRequest
  kGoodbye = 8,   // header only: the descriptor is closed on purpose; answered like a call
  kObserve = 9,   // ObserveRequest; only on a connection for kPurposeObserve
  kWelcome = 64,
  kReply = 65,
  kWake = 66,  // header only: slot `id` of the RingPage has its answer
};

struct Header {
  uint32_t magic;
  uint16_t kind;
  uint16_t flags;  // kFlag*
  uint32_t id;
  uint32_t size;  // of the message
};

inline constexpr uint16_t kFlagDataInFile = 1;  // data lies in the file passed with the request
inline constexpr uint16_t kFlagNoArgument = 2;  // the argument of the ioctl is a null pointer
inline constexpr uint16_t kFlagWrite = 4;       // RegisterRequest
inline constexpr uint16_t kFlagInline = 8;      // RegisterRequest: a kWait follows at once

inline constexpr uint32_t kPurposeList = 1;  // only asks; the connection closes after Welcome
inline constexpr uint32_t kPurposeOpen = 2;
inline constexpr uint32_t kPurposeObserve = 3;  // opens nothing: takes no slot, holds no marks

struct Hello {
  Header header;
  uint16_t oldest_version;
  uint16_t newest_version;
  uint32_t purpose;
  uint64_t features;
  int32_t device;
  int32_t open_flags;  // access mode of open(2)
};

// With kPurposeOpen and kFeatureDoorbells on a descriptor that is not restricted, files follow: the
// RingPage and the eventfd that wakes the daemon.
struct Welcome {
  Header header;
  int32_t result;  // 0 or -errno; then `sentence` says why
  uint16_t version;
  uint16_t unused;
  uint64_t features;
  uint32_t devices;
  uint32_t sentence_bytes;
  uint64_t unused_bytes[2];
  char profile[32];
  char driver_version[32];
  // sentence
};

struct IoctlRequest {
  Header header;
  uint64_t request;
  uint32_t argument_bytes;
  uint32_t pointers;  // two bits for each pointer of the argument: PointerState
  uint64_t data_bytes;
  // argument, data
};

enum class PointerState : uint8_t { kNull = 0, kValid = 1, kBad = 2 };

// Answered with the file of the allocation, or of the part of it that comes first.
struct MapRequest {
  Header header;
  uint64_t length;
  uint64_t offset;
  uint32_t protection;
  uint32_t unused;
};

// Where [offset, offset + size) of a memory handle lies. Answered with the file of the allocation
// unless it is the one that the client has, whose number is `known`.
struct ResolveRequest {
  Header header;
  uint64_t handle;
  uint64_t offset;
  uint64_t size;
  uint64_t known;  // 0: none
};

struct RegisterRequest {
  Header header;
  uint64_t offset;
  uint32_t value;
  uint32_t unused;
};

struct WaitRequest {
  Header header;
  uint64_t deadline_ns;   // CLOCK_MONOTONIC
  uint64_t word_address;  // device address, in memory that the client has mapped
  uint32_t core;
  uint32_t old;
};

struct DescribeRequest {
  Header header;
  uint32_t core;
  uint32_t unused;
};

// Answered with data; numbers[0] of the reply: where the rest of a longer answer begins, or 0.
struct ObserveRequest {
  Header header;
  neuron_emulator_question question;
};

struct Reply {
  Header header;
  int32_t result;
  uint32_t sentence_bytes;
  uint64_t numbers[2];  // map: offset in the file, bytes that are in it; resolve: number of the
                        // file, offset in it; register: value
  uint32_t argument_bytes;
  uint32_t unused;
  uint64_t data_bytes;
  // sentence, argument, data (kDescribe: the text)
};

// One register access. The client owns a slot from the moment it wants one until it has the answer;
// the daemon copies the request out before it looks at it. Both sides treat what they read as
// hostile.
struct Slot {
  alignas(64) std::atomic<uint32_t> posted;  // client: number of the request, written last
  uint32_t flags;                            // kFlagWrite, kFlagInline
  uint64_t offset;
  uint32_t value;
  std::atomic<uint32_t> asleep;                // client: send kWake with the answer
  alignas(64) std::atomic<uint32_t> answered;  // daemon: the number again, written last
  int32_t result;
  uint32_t answer;
};

inline constexpr unsigned kSlots = 32;

// Some register writes that the client does not wait for, one behind the other, with the checks of
// NEURON_IOCTL_BAR_WRITE: all of them are done or none.
struct PostedWrites {
  static constexpr uint32_t kMost = 3;
  struct Write {
    uint64_t address;
    uint32_t value;
    uint32_t unused;
  };
  alignas(64) uint32_t count;
  uint32_t unused;
  Write writes[kMost];
};

inline constexpr unsigned kPosts = 32;

// Posted writes are carried out in their order, and in no order with those of slots. The client
// fills entry `posted` modulo kPosts once fewer than kPosts are on their way, and counts up.
struct RingPage {
  alignas(64) std::atomic<uint32_t> posts;  // client: counts requests of all slots, and posted ones
  alignas(64) std::atomic<uint32_t> daemon_sleeps;  // daemon: write to the eventfd after posting
  Slot slots[kSlots];
  alignas(64) std::atomic<uint32_t> posted;   // client
  alignas(64) std::atomic<uint32_t> carried;  // daemon: how many have been carried out or refused
  std::atomic<uint32_t> refused;              // of them
  uint32_t refused_last;                      // the number of one, counted from 0
  int32_t result;                             // of that one
  PostedWrites written[kPosts];
};

inline constexpr size_t kRingBytes = (sizeof(RingPage) + 4095) / 4096 * 4096;

static_assert(sizeof(Header) == 16 && sizeof(Hello) == 40 && sizeof(Welcome) == 120);
static_assert(sizeof(IoctlRequest) == 40 && sizeof(MapRequest) == 40 && sizeof(Reply) == 56);
static_assert(sizeof(ResolveRequest) == 48 && sizeof(RegisterRequest) == 32);
static_assert(sizeof(ObserveRequest) == 296);
static_assert(sizeof(WaitRequest) == 40 && sizeof(DescribeRequest) == 24 && sizeof(Slot) == 128);
static_assert(sizeof(PostedWrites) == 64 && kRingBytes == 8192);  // as before there were any
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Header of a message of type T.
template <typename T>
T message(Kind kind, uint32_t id, uint16_t flags = 0, size_t behind = 0) {
  T made = {};
  Header* header = reinterpret_cast<Header*>(&made);
  *header = {kMagic, static_cast<uint16_t>(kind), flags, id,
             static_cast<uint32_t>(sizeof(T) + behind)};
  return made;
}

}  // namespace neuron::wire

#endif
