// SPDX-License-Identifier: Apache-2.0
// The messages of ranks while they join, while they gather, and when a rank is gone.
//
// Concepts: a frame is 8 bytes (length, type, mark) and a body. Numbers are little-endian; the
// length of a text precedes it. A reader never reads beyond the body, and refuses a frame longer
// than its limit. Until a connection has proven the secret, a rank reads only hello, challenge and
// proof, at most kStrangerBytes each. Thread-safe: values. Fails: decode() returns false.
#ifndef CCOM_BOOTSTRAP_MESSAGE_H
#define CCOM_BOOTSTRAP_MESSAGE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ccom/bootstrap/address.h"
#include "ccom/bootstrap/bootstrap.h"
#include "driver/base/sha256.h"

namespace neuron::ccom {

// Nonces, and digests that prove that a peer knows the secret.
using Digest = base::Sha256::Digest;

inline constexpr uint16_t kFrameMark = 0xb007;
inline constexpr uint64_t kHelloMagic = 0x746f6f426d6f6363;  // "ccomBoot"
inline constexpr uint16_t kProtocolVersion = 1;
inline constexpr uint32_t kStrangerBytes = 256;
inline constexpr uint32_t kJoinBytes = 4096;
inline constexpr uint32_t kGatherBytes = 64 << 10;  // of one rank in an all-gather
inline constexpr uint32_t kMaxRanks = 1u << 16;

// The shape of the tree of connections: rank 0 is at its root.
inline constexpr uint32_t kTreeWidth = 8;
inline Rank tree_parent(Rank rank) { return (rank - 1) / kTreeWidth; }

enum class MessageType : uint16_t {
  kHello = 1,
  kChallenge,
  kProof,
  kJoin,
  kPlace,
  kRefuse,
  kAttach,
  kTable,
  kReady,
  kGo,
  kGatherUp,
  kGatherDown,
  kRoundFailed,
  kFailure,
  kFarewell,
  kBeat,
  kRegroup,
  kRegroupHeard,
  kRegroupDecided,
  kNotice,
  kGrowthNotice,
};

struct FrameHeader {
  static constexpr size_t kBytes = 8;
  uint32_t length = 0;
  MessageType type = MessageType::kHello;
};
void encode(const FrameHeader& header, std::byte* into);
bool decode(std::span<const std::byte> bytes, FrameHeader& header);

struct Hello {
  uint16_t version = kProtocolVersion;
  Digest nonce{};
};
struct Challenge {
  uint16_t version = kProtocolVersion;
  Digest nonce{};
  Digest proof{};
};
struct Proof {
  Digest proof{};
};
struct Join {
  uint32_t rank = 0;
  uint32_t size = 0;
  uint16_t major = 0, minor = 0;
  uint64_t host_id = 0;
  int32_t process = 0;
  uint32_t device = 0;
  uint64_t capabilities = 0;
  uint32_t remaining_ms = 0;
  Address listener;
  std::string host;
};
struct TreePlace {
  Digest session{};
  uint32_t parent = 0;
  Address address;
};
struct Refuse {
  uint32_t status = 0;
  std::string sentence;
};
struct Attach {
  Digest session{};
  uint32_t rank = 0;
};
struct Table {
  uint64_t capabilities = 0;
  std::vector<Member> members;
  std::vector<Address> listeners;
};
struct GatherUp {
  uint64_t round = 0;
  uint32_t remaining_ms = 0;
  uint32_t rank = 0;
  Bytes data;
};
struct GatherDown {
  uint64_t round = 0;
  std::vector<Bytes> data;
};
struct RoundFailed {
  uint64_t round = 0;
  std::string sentence;
};
struct Failure {
  uint32_t rank = 0;
  uint32_t dead = 0;  // 0: the rank aborted
  uint32_t status = 0;
  std::string sentence;
};
struct Regroup {
  uint64_t key = 0;
  uint32_t rank = 0;
  uint32_t remaining_ms = 0;
  Address listener;
  std::vector<uint32_t> ranks;
};
struct RegroupDecided {
  uint64_t key = 0;
  Address root;
  Digest nonce{};
  std::vector<uint32_t> ranks;
};

Bytes encode(const Hello& message);
Bytes encode(const Challenge& message);
Bytes encode(const Proof& message);
Bytes encode(const Join& message);
Bytes encode(const TreePlace& message);
Bytes encode(const Refuse& message);
Bytes encode(const Attach& message);
Bytes encode(const Table& message);
Bytes encode(const GatherUp& message);
Bytes encode(const GatherDown& message);
Bytes encode(const RoundFailed& message);
Bytes encode(const Failure& message);
Bytes encode(const Regroup& message);
Bytes encode(const RegroupDecided& message);
Bytes encode(const Notice& message);

bool decode(std::span<const std::byte> bytes, Hello& message);
bool decode(std::span<const std::byte> bytes, Challenge& message);
bool decode(std::span<const std::byte> bytes, Proof& message);
bool decode(std::span<const std::byte> bytes, Join& message);
bool decode(std::span<const std::byte> bytes, TreePlace& message);
bool decode(std::span<const std::byte> bytes, Refuse& message);
bool decode(std::span<const std::byte> bytes, Attach& message);
bool decode(std::span<const std::byte> bytes, Table& message);
bool decode(std::span<const std::byte> bytes, GatherUp& message);
bool decode(std::span<const std::byte> bytes, GatherDown& message);
bool decode(std::span<const std::byte> bytes, RoundFailed& message);
bool decode(std::span<const std::byte> bytes, Failure& message);
bool decode(std::span<const std::byte> bytes, Regroup& message);
bool decode(std::span<const std::byte> bytes, RegroupDecided& message);
bool decode(std::span<const std::byte> bytes, Notice& message);

}  // namespace neuron::ccom

#endif
