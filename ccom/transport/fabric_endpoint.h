// SPDX-License-Identifier: Apache-2.0
// The network endpoint of one rank: tagged messages to and from every other rank, unordered.
//
// Concepts: an operation is posted, and ends with a completion that poll() returns, in any order.
// Messages with different tags may overtake one another. A receive is for one peer and tag, or for
// any peer and a tag under a mask; the provider keeps a message that no receive waits for. A post
// that cannot be done now returns -EAGAIN; the caller polls, then tries again. Callers:
// NetworkPort. Threads: one at a time. Owns: the provider's objects; closing ends every operation
// without a completion, and nothing touches its memory afterwards. Fails: negative errno values of
// an operation in its completion, of the whole endpoint in poll() with failure().
#ifndef CCOM_TRANSPORT_FABRIC_ENDPOINT_H
#define CCOM_TRANSPORT_FABRIC_ENDPOINT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/schedule/step.h"

namespace neuron::ccom {

inline constexpr Rank kAnyPeer = ~Rank{0};

// One send or receive in flight. The object must not move until it has completed. `provider`
// belongs to the network and is the first member.
struct FabricOperation {
  std::array<void*, 8> provider{};
  void* owner = nullptr;  // of the caller
  uint64_t number = 0;    // of the caller
  std::byte* buffer = nullptr;
  uint8_t purpose = 0;  // of the caller
};

struct FabricCompletion {
  FabricOperation* operation = nullptr;
  bool receive = false;
  int error = 0;       // errno value; ECANCELED after cancel()
  uint64_t tag = 0;    // receive: of the message
  uint32_t word = 0;   // receive: the word that the sender attached
  uint64_t bytes = 0;  // receive: of the message
};

// A memory registration of the provider; null if it needs none.
using FabricMemory = void*;

class FabricEndpoint {
 public:
  virtual ~FabricEndpoint() = default;

  virtual std::vector<std::byte> address() const = 0;
  // Introduces the addresses of all ranks, before anything is posted; the own place is ignored.
  virtual Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) = 0;
  virtual bool registers_memory() const = 0;
  virtual Result<FabricMemory> register_memory(const void* data, uint64_t bytes) = 0;
  virtual void unregister_memory(FabricMemory memory) = 0;

  // 0: posted. -ESHUTDOWN: the peer has closed its endpoint. Bit 63 of a tag is the provider's.
  virtual int send(Rank peer, const std::byte* data, uint64_t bytes, FabricMemory memory,
                   uint64_t tag, uint32_t word, FabricOperation& operation) = 0;
  // Sends at most small_bytes() bytes without a completion; the memory is free again when this
  // returns 0.
  virtual int send_small(Rank peer, const std::byte* data, uint64_t bytes, uint64_t tag,
                         uint32_t word) = 0;
  virtual uint64_t small_bytes() const = 0;
  // Messages that are sent between the two may wait for the second, so that those to one peer leave
  // together.
  virtual void hold() {}
  virtual void let_go() {}
  virtual int receive(Rank peer, std::byte* data, uint64_t bytes, FabricMemory memory, uint64_t tag,
                      uint64_t ignore, FabricOperation& operation) = 0;
  // A receive without a message completes with ECANCELED; any other completes as usual.
  virtual void cancel(FabricOperation& operation) = 0;
  // How many operations may be posted at once, in each direction.
  virtual uint32_t depth() const = 0;
  // Returns the number of completions written, or a negative errno value if the endpoint is lost.
  virtual int poll(std::span<FabricCompletion> completions) = 0;
  // False: what was given to it may still be on this host, although its completion has been told.
  virtual bool has_arrived() const { return true; }
  virtual void close() = 0;

  virtual const Error& failure() const = 0;
  // "tcp;ofi_rxm on eth0".
  virtual const std::string& provider() const = 0;
  // "10.0.0.1:4000 -> 10.0.0.2:4001".
  virtual std::string route(Rank peer) const = 0;
};

}  // namespace neuron::ccom

#endif
