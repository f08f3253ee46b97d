// SPDX-License-Identifier: Apache-2.0
// The words that the host executor of a rank keeps in its arena for other ranks to read.
//
// Concepts: the owner of the arena alone writes each word, except `sleepers`. A stream numbers its
// collectives from 1. Collective n uses slot n % kSlots of entries, signatures and values, which is
// free for n when all others have set `done` to at least n - kSlots. A rank sets `done` to n when
// it has finished reading and writing other arenas for n. Threads: one per stream and rank writes.
// Owns nothing: a view of arena memory, zero at first.
#ifndef CCOM_PROGRESS_HOST_CONTROL_H
#define CCOM_PROGRESS_HOST_CONTROL_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ccom/transport/arena_layout.h"
#include "ccom/transport/connection.h"

namespace neuron::ccom {

inline constexpr uint32_t kSlots = 8;
inline constexpr uint64_t kSlotBytes = 64 << 10;  // of a value
inline constexpr uint64_t kInlineBytes = 48;      // of a value in its entry

// Where a buffer of a rank is: an offset in its arena, or an address in the process of all ranks.
struct HostPlace {
  static constexpr uint64_t kNone = 0;
  static constexpr uint64_t kAddress = uint64_t{1} << 63;
  uint64_t value = kNone;
};

// One cache line, so that a small value comes with its number in one transfer.
struct alignas(64) HostEntry {
  std::atomic<uint64_t> number;  // written last, with release; readers acquire it
  uint64_t check;                // hash of the signature
  union {
    struct {
      HostPlace input, output, scratch, vector;
    } places;
    std::byte value[kInlineBytes];
  };
};
static_assert(sizeof(HostEntry) == 64);

// May be read while it changes: the reader checks the number before and after.
struct alignas(64) HostSignature {
  static constexpr uint32_t kWords = sizeof(Signature) / 8;

  std::atomic<uint64_t> number;  // written last, with release
  std::atomic<uint64_t> words[kWords];

  void set(const Signature& signature) {
    uint64_t values[kWords];
    __builtin_memcpy(values, &signature, sizeof values);
    for (uint32_t i = 0; i < kWords; ++i) words[i].store(values[i], std::memory_order_relaxed);
  }
  Signature signature() const {
    uint64_t values[kWords];
    for (uint32_t i = 0; i < kWords; ++i) values[i] = words[i].load(std::memory_order_relaxed);
    Signature signature;
    __builtin_memcpy(&signature, values, sizeof values);
    return signature;
  }
};
static_assert(sizeof(HostSignature) == 64);

struct alignas(128) HostCounter {
  std::atomic<uint64_t> value;
};

struct alignas(128) HostSleep {
  std::atomic<uint32_t> sleepers;  // sleepers set it, the owner clears it
  std::atomic<uint32_t> wakes;     // futex: counts up when the owner wakes them
};

// Entries are two cache lines apart, because processors fetch lines in pairs.
struct alignas(128) HostEntrySlot {
  HostEntry entry;
};

struct HostStream {
  HostEntrySlot entries[kSlots];
  HostCounter done;
  // touching: within one process, where every rank can reach every buffer, this rank is using
  // buffers of others. withdrawn: not zero when others must not touch its buffers any more, because
  // it has failed.
  HostCounter touching;
  HostCounter withdrawn;
  HostCounter left;  // not zero: this rank has freed its communicator and will begin nothing
  HostSleep sleep;
  HostSignature signatures[kSlots];
  // The counts of each channel of the schedule in flight: see channel_word().
  HostCounter channels[kMaxChannels];
  alignas(4096) std::byte values[kSlots][kSlotBytes];
};
static_assert(sizeof(HostStream) <= ArenaLayout::kHostControlBytes / CCOM_MAX_STREAMS);

// How many bits count the steps of a channel within one collective. The word grows over all
// collectives of a stream: 2^40 of them, more than a year at one each 30 us.
inline constexpr uint32_t kPositionBits = 24;
constexpr uint64_t channel_word(uint64_t number, uint32_t position) {
  return (number << kPositionBits) + position;
}

inline HostStream* host_stream(std::byte* arena, const ArenaLayout& layout, uint32_t stream) {
  return reinterpret_cast<HostStream*>(
      arena + layout.control + stream * (ArenaLayout::kHostControlBytes / CCOM_MAX_STREAMS));
}

// A hash of the signature; different signatures have the same one with probability 2^-64.
inline uint64_t check_of(const Signature& signature) {
  uint64_t words[sizeof(Signature) / 8];
  static_assert(sizeof(Signature) == 40);
  __builtin_memcpy(words, &signature, sizeof words);
  uint64_t sum = 0x9E3779B97F4A7C15u;
  constexpr uint64_t kOdd[5] = {0xBF58476D1CE4E5B9u, 0x94D049BB133111EBu, 0xD6E8FEB86659FD93u,
                                0xA0761D6478BD642Fu, 0xE7037ED1A0B428DBu};
  for (uint32_t i = 0; i < 5; ++i) {
    // The products are independent, so the multiplications overlap.
    const unsigned __int128 product =
        static_cast<unsigned __int128>(words[i] ^ kOdd[(i + 1) % 5]) * kOdd[i];
    sum ^= static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return sum;
}

}  // namespace neuron::ccom

#endif
