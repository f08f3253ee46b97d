// SPDX-License-Identifier: Apache-2.0
// The 63 bits of a message's tag: its kind, sender, channel and number, and how many messages of
// the opposite direction its sender has granted so far.
//
// Because the tag names the sender, no receive depends on how well a provider distinguishes peers
// (shm of libfabric 1.17 does not always). Counters are truncated: a sender is at most its window
// ahead, so their low bits distinguish them. Callers: NetworkPort and its connections. Thread-safe:
// values. Cannot fail: every tag decodes to something; the receiver checks sender, channel and
// number.
#ifndef CCOM_TRANSPORT_FABRIC_TAG_H
#define CCOM_TRANSPORT_FABRIC_TAG_H

#include <cstdint>

#include "ccom/schedule/step.h"

namespace neuron::ccom {

enum class FabricKind : uint8_t {
  kBulk = 0,     // straight into its granted place
  kEager = 4,    // through a buffer of the pool
  kGrant = 5,    // through the pool, no data: only the grants of the tag
  kControl = 6,  // through the pool, with a ControlMessage
};

struct FabricTag {
  static constexpr unsigned kRankBits = 20;
  static constexpr unsigned kGrantBits = 12;
  static constexpr unsigned kNumberBits = 16;
  static constexpr unsigned kChannelBits = 10;
  static constexpr uint32_t kRanks = 1u << kRankBits;
  static constexpr uint32_t kChannels = 1u << kChannelBits;
  static constexpr uint64_t kGrantMask = (uint64_t{1} << kGrantBits) - 1;
  static constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;
  // The bits that a receive of a long message ignores.
  static constexpr uint64_t kAnyGrants = kGrantMask << kRankBits;
  // Set for messages of the pool: the highest bit of the kind.
  static constexpr uint64_t kPool = uint64_t{1} << 62;

  FabricKind kind = FabricKind::kBulk;
  Rank sender = 0;
  uint8_t stream = 0;
  uint16_t channel = 0;
  uint64_t number = 0;  // in this direction of the channel, since the connection was made
  uint64_t grants = 0;  // of the other direction

  uint64_t encode() const {
    uint64_t tag = static_cast<uint8_t>(kind);
    tag = tag << 2 | (stream & 3u);
    tag = tag << kChannelBits | (channel & (kChannels - 1));
    tag = tag << kNumberBits | (number & kNumberMask);
    tag = tag << kGrantBits | (grants & kGrantMask);
    return tag << kRankBits | (sender & (kRanks - 1));
  }
  static FabricTag decode(uint64_t tag) {
    FabricTag result;
    result.sender = static_cast<Rank>(tag & (kRanks - 1));
    tag >>= kRankBits;
    result.grants = tag & kGrantMask;
    tag >>= kGrantBits;
    result.number = tag & kNumberMask;
    tag >>= kNumberBits;
    result.channel = static_cast<uint16_t>(tag & (kChannels - 1));
    tag >>= kChannelBits;
    result.stream = static_cast<uint8_t>(tag & 3);
    result.kind = static_cast<FabricKind>(tag >> 2 & 7);
    return result;
  }
};

// The counter with the low bits `low` (under `mask`) that is nearest to `near`.
inline uint64_t widen(uint64_t low, uint64_t mask, uint64_t near) {
  const uint64_t forward = (low - near) & mask;
  const uint64_t backward = mask + 1 - forward;
  return forward <= mask / 2 || backward > near ? near + forward : near - backward;
}

}  // namespace neuron::ccom

#endif
