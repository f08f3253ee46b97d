// SPDX-License-Identifier: Apache-2.0
// What a network gives one rank: tagged messages to and from every other rank, unordered.
//
// Concepts: an operation is posted, and ends with a completion that poll() hands out, in any order.
// Messages with different tags may overtake one another. A receive is for one peer and tag, or for
// any peer and a tag under a mask; the provider keeps a message that no receive waits for. A post
// that cannot be done now says -EAGAIN: the caller polls, then tries again. Callers: NetworkPort.
// Threads: one at a time. Owns: the provider's objects; closing ends every operation without a
// completion, and nothing touches its memory afterwards. Fails: negative errno values of an
// operation in its completion, of the whole endpoint in poll() with failure().
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

// One send or receive under way: its memory stays where it is until it has completed. `provider` is
// the network's own, and the first member.
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
  uint32_t word = 0;   // receive: what the sender gave along
  uint64_t bytes = 0;  // receive: of the message
};

// Memory that the provider knows; null where it needs no registration.
using FabricMemory = void*;

class FabricEndpoint {
 public:
  virtual ~FabricEndpoint() = default;

  virtual std::vector<std::byte> address() const = 0;
  // By rank; the own place is ignored. Before anything is posted.
  virtual Result<void> introduce(const std::vector<std::vector<std::byte>>& addresses) = 0;
  virtual bool registers_memory() const = 0;
  virtual Result<FabricMemory> register_memory(const void* data, uint64_t bytes) = 0;
  virtual void unregister_memory(FabricMemory memory) = 0;

  // 0: posted. Bit 63 of a tag is the provider's.
  virtual int send(Rank peer, const std::byte* data, uint64_t bytes, FabricMemory memory,
                   uint64_t tag, uint32_t word, FabricOperation& operation) = 0;
  // At most small_bytes(), which are free again when this returns 0; no completion.
  virtual int send_small(Rank peer, const std::byte* data, uint64_t bytes, uint64_t tag,
                         uint32_t word) = 0;
  virtual uint64_t small_bytes() const = 0;
  virtual int receive(Rank peer, std::byte* data, uint64_t bytes, FabricMemory memory, uint64_t tag,
                      uint64_t ignore, FabricOperation& operation) = 0;
  // A receive that nothing has arrived for completes with ECANCELED; any other completes as usual.
  virtual void cancel(FabricOperation& operation) = 0;
  // Operations that may be posted at once, in each direction.
  virtual uint32_t depth() const = 0;
  // Number of completions written, or a negative errno value when the endpoint is lost.
  virtual int poll(std::span<FabricCompletion> completions) = 0;
  virtual void close() = 0;

  virtual const Error& failure() const = 0;
  // "tcp;ofi_rxm on eth0".
  virtual const std::string& provider() const = 0;
  // "10.0.0.1:4000 -> 10.0.0.2:4001".
  virtual std::string route(Rank peer) const = 0;
};

}  // namespace neuron::ccom

#endif
